#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the accuracy of weights in small integers: by `lockstep compare` for Lockstep's schemes,
and by llama.cpp itself for Q8_0 and Q4_0.

    tools/demo/corpus.py --seed 99 --count 20 > held_out.txt
    tools/bench/accuracy.py --model demo MODEL --text held_out.txt --write docs/quantization.md

Each program is compared with itself in float32 on the same tokens, in the same windows, with keys
and values in float32 on both sides, so that only weights and the rounding of activations differ. If
the two programs' perplexities in float32 differ, nothing is printed. --write puts the table into a
page, between the page's two comments, and names the measured commit.

llama.cpp is built under --work on the first run, as in compare.py.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import environment
from environment import Problem
from page import measured_at, replace_block, split_page
from report import markdown

HERE = Path(__file__).resolve().parent
SCHEMES = "q8,q8c,q4m,q4"
SAME_PERPLEXITY = 1e-4  # Relative: both compute in float32, in different order.


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, nargs="+",
                        help="folders of Llama models: the table has a group of columns for each")
    parser.add_argument("--text", type=Path, required=True,
                        help="a file of text that the model was not trained on")
    parser.add_argument("--tokens", type=int, default=4000, help="max tokens of the text")
    parser.add_argument("--window", type=int, default=256, help="tokens per sequence")
    parser.add_argument("--schemes", default=SCHEMES)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    parser.add_argument("--keep-peer", action="store_true",
                        help="with --write: do not run llama.cpp, and keep the page's rows of it; "
                        "its version is fixed")
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build" / "cpu")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "lockstep" / "bench")
    return parser.parse_args()


def output_of(command: list[str], given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{Path(command[0]).name} {command[1]}: {done.stderr.strip()}")
    return done.stdout


def make_windows(lockstep: str, model: Path, options: argparse.Namespace) -> list[list[int]]:
    """The text's tokens, split as in `lockstep compare`."""
    def ids(text: str, *flags: str) -> list[int]:
        given = json.dumps(text)
        return json.loads(output_of(
            [lockstep, "tokenize", str(model), "--jsonl", *flags], given))["ids"]

    config = json.loads((model / "config.json").read_text())
    before = ids("", "--add-special")[:1]
    before = [token for token in before if token == config["bos_token_id"]]
    tokens = ids(options.text.read_text())[:options.tokens]
    step = options.window - len(before)
    return [before + tokens[i:i + step] for i in range(0, len(tokens), step)]


def ours(lockstep: str, model: Path, options: argparse.Namespace, scheme: str) -> dict:
    return json.loads(output_of([
        lockstep, "compare", str(model), "--text", str(options.text), "--json",
        "--tokens", str(options.tokens), "--window", str(options.window),
        "--dtype", "float32", "--quantize", scheme]))


def cells(found: dict) -> tuple:
    return (f"{found['kl_mean']:.6f}", f"{found['kl_median']:.6f}", f"{found['kl_p99']:.5f}",
            f"{100 * found['same_top1']:.2f}", f"{found['perplexity']:.4f}")


def check_same_model(model: Path, found: dict, peer: dict, positions: int) -> None:
    off = found["perplexity_float32"] / peer["perplexity_float32"] - 1
    if abs(off) > SAME_PERPLEXITY or found["positions"] != positions:
        raise Problem(
            f"{model}: perplexity in float32 is {found['perplexity_float32']} over "
            f"{found['positions']} tokens, of llama.cpp {peer['perplexity_float32']}: they "
            "don't compute the same model")


def measure(lockstep: str, model: Path, options) -> tuple[dict, str]:
    """The cells of one model by row, and a description of the measurement."""
    windows = make_windows(lockstep, model, options)
    positions = sum(map(len, windows))
    rows, peer = {}, None
    if not options.keep_peer:
        python = environment.peer_python(options.work)
        peer = json.loads(output_of(
            [str(python), str(HERE / "accuracy_peer.py"), str(model)], json.dumps(windows)))
        rows = {f"llama.cpp {name}": cells(found) for name, found in peer["kinds"].items()}
    for scheme in options.schemes.split(","):
        found = ours(lockstep, model, options, scheme)
        if peer is not None:
            check_same_model(model, found, peer, positions)
        rows[f"`{scheme}`"] = cells(found)
    return rows, (f"{model.resolve().name}: {positions} tokens in windows of {options.window}, "
                  f"perplexity in float32 {found['perplexity_float32']:.4f}.")


def kept_rows(options) -> list[tuple]:
    """llama.cpp's rows of the page."""
    if not options.keep_peer:
        return []
    if not options.write:
        raise Problem("--keep-peer: must be used with --write PAGE, whose rows are kept")
    lines = split_page(options.write, "accuracy.py")[1].splitlines()
    return [tuple(cell.strip() for cell in line.strip("|").split("|"))
            for line in lines if line.startswith("| llama.cpp")]


def main() -> None:
    options = parse_arguments()
    lockstep = str(environment.built(options.build, "lockstep"))
    kept = kept_rows(options)
    measured = [measure(lockstep, model, options) for model in options.model]
    header = [""]
    for model in options.model:
        header += [f"{model.resolve().name}: KL mean", "median", "99 %", "same best, %",
                   "perplexity"]
    rows = kept + [(name, *(cell for found, _ in measured for cell in found[name]))
                   for name in measured[0][0]]
    text = "\n".join([measured_at(options.build), *(words for _, words in measured), "",
                      markdown(tuple(header), rows)])
    if options.write:
        replace_block(options.write, "accuracy.py", text)
    print(text)


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        print(f"accuracy: {problem}", file=sys.stderr)
        sys.exit(2)
