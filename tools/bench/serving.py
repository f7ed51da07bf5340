#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `lockstep serve` and llama.cpp's server alternately, under the same load.

    tools/bench/serving.py --kinds q4,q8,bf16 --streams 16

Both serve the same shape with random weights and the same artificial vocabulary, with the same
number of threads and of concurrent streams over HTTP; `lockstep bench serve` is the client of both.
The table has medians over the rounds: tokens per second, and the 99th percentile of the time
between two events of a stream. llama-server is built under --work on the first run, which needs the
network, g++ and cmake.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from compare import model_folder
from environment import Problem, built, llama_server, peer_python, run, say
from shapes import KINDS, SHAPES

HERE = Path(__file__).resolve().parent
PATIENCE_S = 300


@dataclass
class Server:
    """A process with OpenAI's HTTP interface on one of our ports."""

    name: str
    command: list[str]
    port: int
    ready: str  # The path that answers 200 when it is ready.
    body: dict
    tokens_per_s: list[float] = field(default_factory=list)
    gap_p99_ms: list[float] = field(default_factory=list)
    process: subprocess.Popen | None = None

    def start(self, log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(self.command, stdout=errors, stderr=errors)
        url = f"http://127.0.0.1:{self.port}{self.ready}"
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.2)
        raise Problem(f"{self.name} did not get ready; see {log}")

    def load(self, client: Path, options: argparse.Namespace, round_: int) -> None:
        """Runs one round and adds its figures. Each round has prompts that no cache has seen."""
        command = [
            str(client), "bench", "serve", "--url", f"http://127.0.0.1:{self.port}",
            "--concurrency", str(options.streams), "--requests", str(2 * options.streams),
            "--prompt-tokens", "8", "--output-tokens", str(options.tokens),
            "--seed", str(round_ + 1), "--extra-body", json.dumps(self.body), "--json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Problem(f"{self.name}: {done.stderr.strip() or done.stdout.strip()}")
        found = json.loads(done.stdout)
        wanted = 2 * options.streams * options.tokens
        if found["output_tokens"] != wanted:
            raise Problem(f"{self.name}: must have {wanted} tokens, found {found['output_tokens']}")
        self.tokens_per_s.append(found["output_tokens_per_s"])
        self.gap_p99_ms.append(found["gap_ms"]["p99"])

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def gguf_file(work: Path, name: str, kind: str) -> Path:
    path = work / f"{name}-served" / f"{kind}.gguf"
    if not path.exists():
        say(f"writing {path}")
        command = [str(peer_python(work)), str(HERE / "gguf_model.py"), str(path), name, kind]
        run([*command, "--vocabulary"], "gguf_model.py", work / "gguf.log", {})
    return path


def servers(options: argparse.Namespace, kind: str) -> list[Server]:
    """Both servers. Requests are greedy, so that neither server sorts the vocabulary."""
    body = {"ignore_eos": True, "temperature": 0}
    threads = str(options.threads)
    folder = model_folder(options.work, f"{options.shape}-served", SHAPES[options.shape])
    ours = [
        str(built(options.build, "lockstep")), "serve", str(folder), "--random-weights", "1",
        *KINDS[kind].flags, "--threads", threads, "--weight-cache", "off", "--http",
        f"127.0.0.1:{options.port}", "--grpc", "127.0.0.1:0", "--max-context", "1024",
    ]
    theirs = [
        str(llama_server(options.work)), "-m", str(gguf_file(options.work, options.shape, kind)),
        "--parallel", str(options.streams), "-c", str(1024 * options.streams), "-t", threads,
        "-tb", threads, "--host", "127.0.0.1", "--port", str(options.port + 1),
    ]
    return [Server("lockstep", ours, options.port, "/readyz", body),
            Server("llama-server", theirs, options.port + 1, "/health", body)]


def compare(options: argparse.Namespace, kind: str) -> str:
    """The table's row for one kind."""
    both = servers(options, kind)
    try:
        for server in both:
            server.start(options.work / "serving.log")
        client = built(options.build, "lockstep")
        for round_ in range(options.rounds + 1):
            for server in both:
                server.load(client, options, round_)
            if round_ == 0:  # A warm-up.
                for server in both:
                    server.tokens_per_s.clear()
                    server.gap_p99_ms.clear()
    finally:
        for server in both:
            server.stop()
    ours, theirs = both
    ratios = sorted(a / b for a, b in zip(ours.tokens_per_s, theirs.tokens_per_s))
    median = statistics.median
    return (f"| {kind} | {median(ours.tokens_per_s):.0f} | {median(theirs.tokens_per_s):.0f} | "
            f"**{median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f}) | "
            f"{median(ours.gap_p99_ms):.0f} | {median(theirs.gap_p99_ms):.0f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="tinyllama")
    parser.add_argument("--kinds", default="q4,q8,bf16", help="(default: %(default)s)")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64, help="tokens per answer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=18100,
                        help="the first of two ports; the second is the next number")
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build" / "cpu")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "lockstep" / "bench")
    parser.add_argument("--prepare", action="store_true", help="only make the files for a run")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    try:
        for kind in kinds:
            if kind not in KINDS:
                raise Problem(f"--kinds: must be some of {', '.join(KINDS)}, found {kind}")
            servers(options, kind)
        if options.prepare:
            return 0
        print("| weights | lockstep, tokens/s | llama-server | ratio | p99 between events, ms | "
              "llama-server's |\n| --- | --- | --- | --- | --- | --- |", flush=True)
        for kind in kinds:
            print(compare(options, kind), flush=True)
    except Problem as problem:
        say(str(problem))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
