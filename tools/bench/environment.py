# SPDX-License-Identifier: Apache-2.0
"""Builds llama.cpp for comparisons: a Python environment that has it, and llama-server."""

import os
import subprocess
import sys
from pathlib import Path

# Fixed versions, so that figures of different days have the same llama.cpp.
PACKAGES = ("numpy", "gguf==0.19.0")
LLAMA_CPP = "llama-cpp-python==0.3.36"


class Problem(Exception):
    """An external error: one line that names the thing, the expected value and how to fix it."""


def say(text: str) -> None:
    print(f"compare: {text}", file=sys.stderr, flush=True)


def run(command: list[str], what: str, log: Path, extra: dict[str, str]) -> None:
    with log.open("ab") as output:
        done = subprocess.run(command, stdout=output, stderr=output, env={**os.environ, **extra})
    if done.returncode != 0:
        raise Problem(f"{what} ended with exit code {done.returncode}; see {log}")


def has_packages(python: Path) -> bool:
    if not python.exists():
        return False
    done = subprocess.run(
        [python, "-c", "import gguf, llama_cpp, numpy"], capture_output=True, check=False
    )
    return done.returncode == 0


# llama.cpp's flags, by LOCKSTEP_ISA; "": this machine.
PEER_FLAGS = {
    "": "-DGGML_NATIVE=ON",
    "avx2": "-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON "
            "-DGGML_BMI2=ON -DGGML_AVX512=OFF",
}


def peer_python(work: Path, isa: str = "") -> Path:
    """A Python with llama.cpp; made under `work` on the first call, which needs the network."""
    work = work / isa
    python = work / "venv" / "bin" / "python"
    if has_packages(python):
        return python
    log = work / "install.log"
    say(f"building llama.cpp under {work}: some minutes, once; the log is {log}")
    work.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", str(work / "venv")], "python3 -m venv", log, {})
    pip = [str(python), "-m", "pip", "install"]
    run([*pip, *PACKAGES], "pip install of numpy and gguf", log, {})
    cores = str(len(os.sched_getaffinity(0)))
    native = {"CMAKE_ARGS": PEER_FLAGS[isa], "CMAKE_BUILD_PARALLEL_LEVEL": cores}
    build = [*pip, "--no-binary", "llama-cpp-python", LLAMA_CPP]
    run(build, "pip install of llama-cpp-python, which needs g++ and cmake,", log, native)
    return python


def llama_server(work: Path) -> Path:
    """llama.cpp's own server, from the source in that package; built on the first call."""
    folder = work / "llama-server"
    program = folder / "build" / "bin" / "llama-server"
    if program.exists():
        return program
    log = work / "install.log"
    say(f"building llama-server under {folder}: some minutes, once; the log is {log}")
    folder.mkdir(parents=True, exist_ok=True)
    fetch = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "-d"]
    run([*fetch, str(folder), LLAMA_CPP], f"pip download of {LLAMA_CPP}", log, {})
    archive = next(folder.glob("*.tar.gz"))
    run(["tar", "xzf", str(archive), "-C", str(folder)], f"tar of {archive}", log, {})
    source = next(folder.glob("llama_cpp_python-*/vendor/llama.cpp"))
    flags = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_BUILD_TESTS=OFF",
             "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_OPENSSL=OFF"]
    if "amx_tile" in Path("/proc/cpuinfo").read_text():  # llama.cpp's AMX code crashes there.
        without = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
        flags += [f"-DCMAKE_C_FLAGS={without}", f"-DCMAKE_CXX_FLAGS={without}"]
    run(["cmake", "-S", str(source), "-B", str(folder / "build"), *flags], "cmake", log, {})
    build = ["cmake", "--build", str(folder / "build"), "--target", "llama-server", "-j"]
    run([*build, str(len(os.sched_getaffinity(0)))], "the build of llama-server", log, {})
    return program


def built(build: Path, name: str) -> Path:
    """The path of one of our programs."""
    path = build / "bin" / name
    if not path.exists():
        raise Problem(f"{path}: must be a built program, found none; cmake --build {build}")
    return path
