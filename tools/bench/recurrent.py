#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How close decoding with recurrent layers comes to reading the weights once per token.

    tools/bench/recurrent.py [--kinds q8,bf16] [--threads 1] [--rounds 5] [--build build/cpu]

Weights are random. In every round the machine's read loop (bench/limits.cc) and each model run one
after the other. A figure is the median over rounds, and a share is the median of the rounds'
shares. One row of the embedding is read per token; the layers' state is not counted.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from compare import Machine
from contestant import Contestant
from environment import Problem, built
from report import markdown
from shapes import KINDS, RECURRENT, parse_case

CASE = parse_case("decode:64")


def read_bytes(config: dict, kind: str, weight_bytes: int) -> float:
    """The bytes of weights that one step reads."""
    return weight_bytes - config["vocab_size"] * config["hidden_size"] * KINDS[kind].bits / 8


def measure(model: str, kind: str, options, machine: Machine) -> tuple:
    config = RECURRENT[model]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        running = Contestant(model, [
            str(built(options.build, "lockstep")), "bench", folder, "--random-weights", "1",
            "--weight-cache", "off", "--threads", str(options.threads), "--max-context", "1024",
            "--max-running", "4", "--cases", "-", "--repeat", "1", "--json", *KINDS[kind].flags])
        step_s, shares = [], []
        try:
            running.start(Path(folder) / "log")
            needed = read_bytes(config, kind, running.about["weight_bytes"])
            for _ in range(options.rounds):
                limits = next(row for row in machine.ask()["limits"]
                              if row["threads"] == options.threads)
                step_s.append(running.seconds(CASE.name) / CASE.steps)
                shares.append(needed / (limits["read_gb_per_s"] * 1e9) / step_s[-1])
        finally:
            running.stop()
    return (model, kind, str(options.threads), f"{needed / 1e9:.2f} GB",
            f"{1 / median(step_s):.1f} tokens/s", f"{median(shares):.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(RECURRENT), help="(default: %(default)s)")
    parser.add_argument("--kinds", default="q8,bf16", help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=Path, default=Path("build/cpu"))
    options = parser.parse_args()
    try:
        machine = Machine(built(options.build, "limits"))
        rows = [measure(model, kind, options, machine) for model in options.models.split(",")
                for kind in options.kinds.split(",")]
    except Problem as problem:
        print(f"recurrent: {problem}", file=sys.stderr)
        return 2
    print(markdown(("model", "weights", "threads", "read per token", "decode",
                    "share of the read loop"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
