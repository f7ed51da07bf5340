# SPDX-License-Identifier: Apache-2.0
"""Runs vLLM's HTTP tests (fetch.py) with plugin.py against the binary of the first argument.

    run.py BINARY [ARGUMENT OF pytest]...
    run.py BINARY --ci

Prints the numbers of tests that passed, are inapplicable, are known gaps and are faults, and the
name of each fault. outcomes.txt has the states of tests that fail; a test that fails and is not
there is a fault, and sets the exit code to 1. With --ci it runs the tests of ci.txt, each of which
must pass; the exit code is 77 if they cannot be fetched or run.
"""
import collections
import fnmatch
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WORK = ROOT / "build/clients/vllm"
SKIPPED = 77  # ctest's code.
NEEDED = ("openai", "prometheus_client", "pybase64", "pytest", "pytest_asyncio", "pytest_timeout",
          "regex", "requests", "transformers")


def suite_model() -> Path:
    """The demo model with a longer context: the tests' prompts are long, and any answer is fine."""
    folder = WORK / "model"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (ROOT / "demo").iterdir():
        if file.suffix in (".json", ".safetensors"):
            shutil.copy(file, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 32768
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(ROOT / "tests/tools/stories_with_tools.jinja", folder / "chat_template.jinja")
    return folder


def test_files(source: Path) -> list[Path]:
    """Files whose tests call a server through a client or a client's fixture."""
    return [path for path in sorted(source.rglob("test_*.py"))
            if "RemoteOpenAIServer" in (text := path.read_text()) or "client.responses" in text
            or "client.chat" in text]


def known_outcomes() -> list[tuple[str, str]]:
    """(pattern of a test's name, state) from outcomes.txt; the first match counts."""
    rows = []
    for line in (HERE / "outcomes.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            state, pattern, _ = line.split(None, 2)
            rows.append((pattern, state))
    return rows


def results(report: Path) -> dict[str, tuple[str, str]]:
    """By test: passed, failed or skipped, and why."""
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = case.get("classname").removeprefix("tests.").replace("entrypoints.", "")
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")),
                       None)
        state = "passed"
        if problem is not None:
            state = "skipped" if problem.tag == "skipped" else "failed"
        found[f"{name}::{case.get('name')}"] = (
            state, "" if problem is None else problem.get("message", "").splitlines()[0][:200])
    return found


def ci_tests() -> list[Path]:
    lines = (HERE / "ci.txt").read_text().splitlines()
    return [WORK / "source/tests" / line for line in lines if line and not line.startswith("#")]


def report_ci(found: dict[str, tuple[str, str]], code: int) -> int:
    """A skipped test counts as a failed one."""
    others = {name: result for name, result in found.items() if result[0] != "passed"}
    for name, (state, why) in sorted(others.items()):
        print(f"{state}: {name}: {why}")
    print(f"{len(found) - len(others)} of {len(found)} chosen cases pass")
    return 1 if others or code != 0 else 0


def main() -> int:
    binary, *arguments = sys.argv[1:]
    is_ci = arguments == ["--ci"]
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"vllm: must have the packages {', '.join(NEEDED)}, found no {missing[0]}; run "
              "tools/test.sh or tools/clients.sh with a network")
        return SKIPPED
    fetched = subprocess.run([sys.executable, HERE / "fetch.py", WORK / "source"], check=False)
    if fetched.returncode != 0:
        print("vllm: must have vLLM's tests, found none; try again with a network: they are "
              "fetched from PyPI once")
        return SKIPPED
    if is_ci:
        arguments = ci_tests()
    logs = WORK / "logs"
    logs.mkdir(exist_ok=True)
    report = WORK / "report.xml"
    environment = os.environ | {
        "SUITE_BINARY": str(Path(binary).resolve()), "SUITE_MODEL": str(suite_model()),
        "SUITE_LOGS": str(logs), "SUITE_SOURCE": str(WORK / "source"), "PYTHONPATH": str(HERE),
        "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "plugin", "-q", "--tb=short", "-W", "ignore",
         "-o", "asyncio_mode=strict", "--timeout=120", "-p", "no:cacheprovider",
         f"--junitxml={report}", f"--rootdir={WORK / 'source'}",
         *(arguments or test_files(WORK / "source" / "tests"))],
        cwd=WORK / "source", env=environment, check=False)

    if is_ci:
        return report_ci(results(report), run.returncode)

    outcomes = known_outcomes()
    states = collections.Counter()
    for name, (state, why) in sorted(results(report).items()):
        known = next((known for pattern, known in outcomes if fnmatch.fnmatchcase(name, pattern)),
                     None)
        if state == "passed":
            states["pass"] += 1
            if known is not None:
                print(f"passes now, though outcomes.txt says {known}: {name}")
        elif state == "skipped" or known == "inapplicable":
            states["not applicable"] += 1
        elif known == "gap":
            states["known gap"] += 1
        else:
            states["fault"] += 1
            print(f"fault: {name}: {why}")
    print(", ".join(f"{states[key]} {key}"
                    for key in ("pass", "not applicable", "known gap", "fault")))
    return states["fault"] > 0


if __name__ == "__main__":
    sys.exit(main())
