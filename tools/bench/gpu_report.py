#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of tools/gpu_check.sh as results.json and summary.md, and prints the summary
without the kernels' tables.

    tools/bench/gpu_report.py LOGS FOLDER

LOGS holds two files for each step: NAME.step is its record (when it began, its outcome, its
seconds), and NAME.txt is its output. Lines of the output that are JSON objects are figures.
"""
import datetime
import json
import pathlib
import sys


def figures(file):
    """The JSON objects among the lines of a log; empty without a log."""
    found = []
    for line in file.read_text(errors="replace").splitlines() if file.exists() else []:
        if not line.startswith("{"):
            continue
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            pass  # Truncated when the step ended.
    return found


def failed_tests(file):
    """The names of tests that failed, by GoogleTest's output."""
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    mark = "[  FAILED  ] "
    named = [line.removeprefix(mark) for line in lines if line.startswith(mark)]
    return sorted({line.split(",")[0].split(" (")[0] for line in named if "." in line})


def step_of(file):
    began, outcome, seconds = file.read_text().rstrip("\n").split("\t")
    step = {"name": file.stem, "began": int(began), "outcome": outcome, "seconds": int(seconds)}
    failed = failed_tests(file.with_suffix(".txt"))
    return {**step, "failed_tests": failed} if failed else step


def read(logs):
    steps = sorted(map(step_of, logs.glob("*.step")), key=lambda step: step["began"])
    devices = logs / "devices.txt"
    return {
        "date": datetime.date.today().isoformat(),
        "device": "; ".join(devices.read_text().splitlines()) if devices.exists() else "",
        "steps": steps,
        **{name: figures(logs / f"{name}.txt")
           for name in ("bench", "bench_fast", "bench_q4", "bench_direct", "torch", "kernels",
                        "variants")},
    }


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def rates(found):
    return {one["case"]: one["tokens_per_s"] for one in found if "case" in one}


def case_rows(results):
    ours, theirs = rates(results["bench"]), rates(results["torch"])
    for case in dict.fromkeys([*ours, *theirs]):
        mine, peer = ours.get(case), theirs.get(case)
        yield [case, f"{mine:.1f}" if mine else "-", f"{peer:.1f}" if peer else "-",
               f"{mine / peer:.2f}" if mine and peer else "-"]


# The exact class in bfloat16, then its rivals.
def other_rows(results):
    exact = rates(results["bench"])
    others = [rates(results[name]) for name in ("bench_fast", "bench_q4", "bench_direct")]
    for case in exact:
        if any(case in other for other in others):
            yield [case, *(f"{one[case]:.1f}" if case in one else "-" for one in [exact, *others])]


def limit_rows(results):
    for one in results["kernels"]:
        if one["kernel"] == "copy":
            yield [one["shape"], f"{one['gb_s']:.1f} GB/s"]
    for one in results["torch"]:
        if "limit" in one:
            yield [f"{one['limit']} (PyTorch)", f"{one['rate']:.1f} {one['unit']}"]


def short_part(results):
    parts = [f"# GPU check, {results['date']}: {results['device'] or 'no device'}\n",
             table(["step", "outcome", "seconds"],
                   [[s["name"], s["outcome"], s["seconds"]] for s in results["steps"]])]
    limits, cases = list(limit_rows(results)), list(case_rows(results))
    if limits:
        parts.append(table(["limit", "measured"], limits))
    if cases:
        parts.append("Llama-3-8B's shape, random bfloat16 weights, one GPU, tokens per second:\n")
        parts.append(table(["case", "lockstep", "PyTorch", "ratio"], cases))
    others = list(other_rows(results))
    if others:
        parts.append("Other settings, tokens per second:\n")
        parts.append(table(["case", "bfloat16", "--fast", "q4", "no graphs"], others))
    failed = [test for step in results["steps"] for test in step.get("failed_tests", [])]
    if failed:
        parts.append("Tests that failed:\n\n" + "".join(f"- {test}\n" for test in failed))
    return "\n".join(parts)


def kernel_part(results):
    rows = [[k["kernel"], k["shape"], k["us"], k["gb_s"], k["gflop_s"]]
            for k in results["kernels"] if k["kernel"] != "copy"]
    return "\n" + table(["kernel", "shape", "us", "GB/s", "GFLOP/s"], rows) if rows else ""


def marked(one, figure):
    return f"{figure}{'' if one['same_bits'] else ' (other bits)'}"


def variant_part(results):
    """TFLOP/s of linears and experts for many rows, by the rows per tile; 0: the kernel that uses
    mma.sync."""
    found = {}
    for one in results["variants"]:
        if "tile_rows" not in one:
            continue
        key = one["variant"].split("_")[-1], one["shape"]
        found.setdefault(key, {})[one["tile_rows"]] = marked(one, one["tflop_s"])
    tiles = sorted({tile for row in found.values() for tile in row})
    rows = [[*key, *(row.get(tile, "-") for tile in tiles)] for key, row in found.items()]
    head = ["weights", "TFLOP/s of",
            *(f"tiles of {tile}" if tile else "mma.sync" for tile in tiles)]
    return "\n" + table(head, rows) if rows else ""


def attention_part(results):
    """Microseconds of attention, by the way in which the work is divided."""
    found = {}
    for one in results["variants"]:
        way = one["variant"].removeprefix("attention_")
        if way != one["variant"]:
            found.setdefault((one["pages"], one["shape"]), {})[way] = marked(one, one["us"])
    ways = sorted({way for row in found.values() for way in row})
    rows = [[*key, *(row.get(way, "-") for way in ways)] for key, row in found.items()]
    return "\n" + table(["pages", "us of attention", *ways], rows) if rows else ""


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    logs, folder = map(pathlib.Path, sys.argv[1:])
    results = read(logs)
    short = short_part(results)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "summary.md").write_text(short + kernel_part(results) + variant_part(results) +
                                       attention_part(results))
    print(short)


if __name__ == "__main__":
    main()
