#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What small integers cost: every scheme of `lockstep compare`, and llama.cpp's Q8_0 and Q4_0.

    tools/demo/corpus.py --seed 99 --count 20 > held_out.txt
    tools/bench/accuracy.py --model demo --text held_out.txt

Each program is compared with itself in float32 on the same tokens, in the same windows, with keys
and values in float32 on both sides, so that weights and the rounding of activations are all that
differs. Both programs' float32 must have the same perplexity, else nothing is printed.

llama.cpp is built under --work on the first run, as compare.py does it.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import environment
from environment import Problem

HERE = Path(__file__).resolve().parent
SCHEMES = "q8,q8c,q4m,q4"
SAME_PERPLEXITY = 1e-4  # Relative: both compute in float32, in another order.


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a Llama's folder")
    parser.add_argument("--text", type=Path, required=True, help="what it was not trained on")
    parser.add_argument("--tokens", type=int, default=4000, help="of the text")
    parser.add_argument("--window", type=int, default=256, help="tokens of a sequence")
    parser.add_argument("--schemes", default=SCHEMES)
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build" / "cpu")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "lockstep" / "bench")
    return parser.parse_args()


def output_of(command: list[str], given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{Path(command[0]).name} {command[1]}: {done.stderr.strip()}")
    return done.stdout


def make_windows(lockstep: str, options: argparse.Namespace) -> list[list[int]]:
    """The text's tokens as `lockstep compare` cuts them."""
    def ids(text: str, *flags: str) -> list[int]:
        given = json.dumps(text)
        return json.loads(output_of(
            [lockstep, "tokenize", str(options.model), "--jsonl", *flags], given))["ids"]

    config = json.loads((options.model / "config.json").read_text())
    before = ids("", "--add-special")[:1]
    before = [token for token in before if token == config["bos_token_id"]]
    tokens = ids(options.text.read_text())[:options.tokens]
    step = options.window - len(before)
    return [before + tokens[i:i + step] for i in range(0, len(tokens), step)]


def ours(lockstep: str, options: argparse.Namespace, scheme: str) -> dict:
    return json.loads(output_of([
        lockstep, "compare", str(options.model), "--text", str(options.text), "--json",
        "--tokens", str(options.tokens), "--window", str(options.window),
        "--dtype", "float32", "--quantize", scheme]))


def row(name: str, found: dict) -> str:
    return (f"| {name} | {found['weight_bytes'] / 1e3:.0f} | {found['kl_mean']:.6f} "
            f"| {found['kl_median']:.6f} | {found['kl_p99']:.5f} "
            f"| {100 * found['same_top1']:.2f} | {found['perplexity']:.4f} |")


def main() -> None:
    options = parse_arguments()
    lockstep = str(environment.built(options.build, "lockstep"))
    python = environment.peer_python(options.work)
    windows = make_windows(lockstep, options)
    peer = json.loads(output_of(
        [str(python), str(HERE / "accuracy_peer.py"), str(options.model)], json.dumps(windows)))
    rows = [row(f"llama.cpp {name}", found) for name, found in peer["kinds"].items()]
    for scheme in options.schemes.split(","):
        found = ours(lockstep, options, scheme)
        off = found["perplexity_float32"] / peer["perplexity_float32"] - 1
        if abs(off) > SAME_PERPLEXITY or found["positions"] != sum(map(len, windows)):
            raise Problem(
                f"{options.model}: perplexity in float32 is {found['perplexity_float32']} over "
                f"{found['positions']} tokens, of llama.cpp {peer['perplexity_float32']}: they "
                "don't compute the same model")
        rows.append(row(f"`{scheme}`", found))
    print(f"{sum(map(len, windows))} tokens in windows of {options.window}; "
          f"perplexity in float32 {peer['perplexity_float32']:.4f}\n")
    print("| | kB | KL mean | median | 99 % | same best, % | perplexity |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit(f"accuracy: {problem}")
