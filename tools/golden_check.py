#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that `lockstep generate` gives the references' results, on any device.

    tools/golden_check.py LOCKSTEP FOLDER... [-- FLAGS OF generate]

Each FOLDER holds a model and golden.json: prompts as ids, the greedy tokens after each, and the
logits of its last position. Exit code 0 if all agree: tokens exactly, logits within 2e-4 of the
largest one.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 2e-4  # The largest logit is 1.


def answers(lockstep, folder, prompts, flags):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as requests:
        for prompt in prompts:
            request = {"prompt_ids": prompt["ids"], "max_tokens": len(prompt["greedy"]),
                       "temperature": 0, "ignore_eos": True, "logits": True}
            requests.write(json.dumps(request) + "\n")
        requests.flush()
        command = [lockstep, "generate", str(folder), "--input", requests.name, "--json", *flags]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if ended.returncode != 0:
        raise RuntimeError(f"{folder.name}: exit code {ended.returncode}: {ended.stderr.strip()}")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def difference(found, wanted):
    largest = max(abs(x) for x in wanted)
    return max(abs(a - b) for a, b in zip(found, wanted, strict=True)) / largest


def check(lockstep, folder, flags):
    """Whether `folder` agrees with its golden.json, and a description."""
    prompts = json.loads((folder / "golden.json").read_text())["prompts"]
    found = answers(lockstep, folder, prompts, ["--dtype", "float32", *flags])
    tokens = sum(a["tokens"] == p["greedy"] for a, p in zip(found, prompts, strict=True))
    worst = max(difference(a["prompt_logits"], p["last_logits"])
                for a, p in zip(found, prompts, strict=True))
    return tokens == len(prompts) and worst <= TOLERANCE, (
        f"{tokens} of {len(prompts)} prompts have the reference's tokens, "
        f"logits differ by {worst:.1e}")


def main():
    arguments = sys.argv[1:]
    flags = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, flags = arguments[:at], arguments[at + 1:]
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    failures = 0
    for folder in map(pathlib.Path, arguments[1:]):
        try:
            good, said = check(arguments[0], folder, flags)
        except RuntimeError as error:
            raise SystemExit(f"golden_check: {error}") from None
        failures += not good
        print(f"{folder.name}: {said}{'' if good else ': FAILED'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
