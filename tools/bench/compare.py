#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lockstep and llama.cpp on the same shapes, or two builds of lockstep, interleaved in one run.

    tools/bench/compare.py --shape tinyllama --kinds bf16 --threads 1,2 --json figures.jsonl
    tools/bench/compare.py --print --json figures.jsonl --write-page docs/performance.md
    tools/bench/compare.py --against ../main/build/cpu --quick     # one thread, about 5 minutes
    tools/bench/compare.py --against ../main/build/cpu             # the whole gate

Makes a config.json and a GGUF of the shape (random weights), starts both programs once, and lets
them measure each case alternately in several rounds. bench/limits.cc probes the placement of the
machine's two CPUs (how close they are) before and after every run. A run during which the placement
changed is repeated, and only runs with the same placement are compared. The table has medians in
tokens per second, in parentheses the share of the limits of memory and multipliers, in bold the
ratio to llama.cpp. llama.cpp is built under --work on the first run, which needs the network, g++
and cmake.

--against BUILD compares this build with another build folder of lockstep, without llama.cpp: the
ratio of their times per round, its median and its 95 % interval. The exit code is 1 if a case
became slower: the median is below 0.98 and the interval does not contain 1.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import against
import environment
from contestant import Contestant
from environment import Problem, say
from page import measured_at, replace_block
from report import PEER, report
from shapes import CONTEXT, KINDS, SHAPES, Shape, config, parse_case
from vocabulary import tokenizer

HERE = Path(__file__).resolve().parent
CASES = ("prefill:512", "decode:128", "decode:64@4096", "decode:32x4", "decode:32x8",
         "decode:32x16", "decode:32x32")
QUICK_CASES = ("prefill:128", "decode:16", "decode:16@256", "decode:8x4")
ATTEMPTS = 4  # To get a run with a constant placement.
SETTLE_S = 0.02  # A pause after a run: helper threads spin for a moment before they sleep.


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="tinyllama")
    parser.add_argument("--kinds", default="",
                        help="a list of bf16, q8, q4 (default: bf16, or q4 for a large shape; with "
                        "--against all of them)")
    parser.add_argument("--threads", default="", help="(default: 1,2; with --against --quick: 1)")
    parser.add_argument("--cases", default="", help="see lockstep bench --cases")
    parser.add_argument("--rounds", type=int, default=0, help="(default: 3; with --against 11)")
    parser.add_argument("--quick", action="store_true",
                        help="short cases; one round (11 with --against)")
    parser.add_argument("--json", type=Path, help="add the records to this file, one per line")
    parser.add_argument("--print", action="store_true", help="only print the table of --json")
    parser.add_argument("--write-page", type=Path, metavar="PAGE",
                        help="put the table into this page, between its two comments")
    parser.add_argument("--isa", choices=[isa for isa in environment.PEER_FLAGS if isa], default="",
                        help="the newest instruction set that both programs may use")
    parser.add_argument("--prepare", action="store_true", help="only make the files for a run")
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build" / "cpu",
                        help="this build's folder (default: %(default)s)")
    parser.add_argument("--against", type=Path, metavar="BUILD",
                        help="the other build's folder, e.g. build/cpu of another checkout")
    parser.add_argument("--workers", type=int, default=1,
                        help="with --against: worker processes of --threads each (default: 1)")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "lockstep" / "bench")
    options = parser.parse_args(arguments)
    set_defaults(options)
    if options.isa:
        os.environ["LOCKSTEP_ISA"] = options.isa
    options.kinds = options.kinds.split(",")
    for kind in options.kinds:
        if kind not in KINDS:
            raise Problem(f"--kinds: must be some of {', '.join(KINDS)}, found {kind}")
    try:
        options.threads = [int(count) for count in options.threads.split(",")]
        options.cases = [parse_case(name) for name in options.cases.split(",")]
    except ValueError as problem:
        raise Problem(f"--threads, --cases: {problem}") from None
    return options


def set_defaults(options: argparse.Namespace) -> None:
    """Sets defaults for either kind of comparison."""
    if options.against:
        kinds, rounds = against.KINDS_COMPARED, against.MIN_ROUNDS
        cases = against.QUICK_CASES if options.quick else against.CASES
    else:
        kinds, rounds = "bf16", 1 if options.quick else 3
        cases = QUICK_CASES if options.quick else CASES
    large = options.shape.endswith("-q4")
    options.kinds = options.kinds or ("q4" if large else kinds)
    options.rounds = options.rounds or rounds
    options.threads = options.threads or ("1" if options.against and options.quick else "1,2")
    options.cases = options.cases or ",".join(cases)


class Machine:
    """The probe of the machine's limits and placement (limits.cc)."""

    def __init__(self, limits: Path):
        self.program = str(limits)

    def ask(self, *flags: str) -> dict:
        done = subprocess.run([self.program, *flags], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Problem(f"{self.program}: {done.stderr.strip() or 'failed'}")
        return json.loads(done.stdout)

    def placement(self) -> str:
        return self.ask("--placement")["placement"]


def measure(contestant, case: str, placement) -> tuple[float, str]:
    """Seconds and the class of placement, if it stayed the same; else "mixed"."""
    for _ in range(ATTEMPTS):
        before = placement()
        seconds = contestant.seconds(case)
        time.sleep(SETTLE_S)
        if placement() == before:
            return seconds, before
    return seconds, "mixed"


def config_folder(work: Path, name: str, shape: Shape) -> Path:
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(shape), indent=2) + "\n")
    return folder


def model_folder(work: Path, name: str, shape: Shape) -> Path:
    """Makes the shape's folder with a tokenizer.json, so that a server can be started with it."""
    folder = config_folder(work, name, shape)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(shape.vocab)))
    return folder


def gguf_file(work: Path, python: Path, name: str, kind: str) -> Path:
    path = work / name / f"{kind}.gguf"
    if not path.exists():
        say(f"writing {path}")
        command = [str(python), str(HERE / "gguf_model.py"), str(path), name, kind]
        environment.run(command, "gguf_model.py", work / "gguf.log", {})
    return path


def kv_bytes(shape: Shape, cases: list, spare: int = 0) -> int:
    """Bytes of keys and values in the largest case, with `spare` more positions per sequence."""
    most = max(case.batch * (case.prompt + case.steps + spare) for case in cases)
    return most * shape.kv_bytes


def contestants(options, kind: str, threads: int, python: Path) -> list[Contestant]:
    """llama.cpp; lockstep as one worker with these threads, and as workers of one thread."""
    shape = SHAPES[options.shape]
    folder = config_folder(options.work, options.shape, shape)
    gguf = gguf_file(options.work, python, options.shape, kind)
    # llama.cpp gets huge pages from the C library; lockstep asks the system for them itself.
    peer = ["env", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", str(python), str(HERE / "peer.py")]
    found = [Contestant(PEER, [*peer, str(gguf), str(threads)])]
    for workers, each in dict.fromkeys([(1, threads), (threads, 1)]):
        found.append(Contestant(
            f"lockstep {workers}x{each}",
            [str(environment.built(options.build, "lockstep")), "bench", str(folder),
             "--random-weights", "1", "--weight-cache", "off",  # Every start packs weights.
             "--workers", str(workers), "--threads", str(each),
             # Twice the memory: the first sequences continue until the last one has its steps.
             "--max-context", str(CONTEXT),
             "--kv-memory", str(2 * kv_bytes(shape, options.cases, spare=64)),
             "--cases", "-", "--repeat", "1", "--json", *KINDS[kind].flags]))
    return found


class Records:
    """The measurements; also stored in a file, if one is given."""

    def __init__(self, path: Path | None):
        self.path = path
        self.all: list[dict] = []
        if path is not None and path.exists():
            self.all = [json.loads(line) for line in path.read_text().splitlines()]

    def add(self, record: dict) -> None:
        self.all.append(record)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")


def compare(options, kind: str, threads: int, python: Path, records: Records) -> None:
    """All cases and rounds of one kind of weights and one number of threads."""
    machine = Machine(environment.built(options.build, "limits"))
    running = contestants(options, kind, threads, python)
    common = {"shape": options.shape, "kind": kind, "threads": threads}
    try:
        for one in running:
            one.start(options.work / "contestants.log")
            say(f"{options.shape} {kind} {one.name}: first token after {one.first_token_s:.1f} s")
        for turn in range(options.rounds):
            records.add({"record": "limits", **machine.ask()})
            for case in options.cases:
                for one in running if turn % 2 == 0 else reversed(running):
                    seconds, placement = measure(one, case.name, machine.placement)
                    rate = case.tokens / seconds
                    say(f"{case.name} {one.name}: {rate:.1f} tokens/s, placement {placement}")
                    records.add({"record": "run", **common, "contestant": one.name,
                                 "case": case.name, "seconds": seconds, "placement": placement})
        for one in running:
            records.add({"record": "start", **common, "contestant": one.name, "about": one.about,
                         "first_token_s": one.first_token_s,
                         "memory_beyond_weights_and_kv":
                             one.memory_beyond_weights()
                             - kv_bytes(SHAPES[options.shape], options.cases)})
    finally:
        for one in running:
            one.stop()


def compare_with_peer(options, records: Records) -> None:
    python = environment.peer_python(options.work, options.isa)
    if not options.prepare:
        records.add({"record": "build", "measured": measured_at(options.build)})
    for kind in options.kinds:
        for threads in options.threads:
            if options.prepare:
                contestants(options, kind, threads, python)
            else:
                compare(options, kind, threads, python, records)


def show(options, records: Records) -> None:
    found = [record["measured"] for record in records.all if record["record"] == "build"]
    parts = ["\n".join(dict.fromkeys(found)), report(records.all), against.table(records.all)]
    text = "\n\n".join(filter(None, parts))
    if options.write_page:
        replace_block(options.write_page, "compare.py", text)
    print(text)


def main(arguments: list[str]) -> int:
    try:
        options = parse_arguments(arguments)
        records = Records(options.json)
        if options.against and not options.print:
            config_folder(options.work, options.shape, SHAPES[options.shape])
            return 0 if against.measure(options, records) else 1
        if not options.print:
            compare_with_peer(options, records)
        if not options.prepare:
            show(options, records)
    except Problem as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
