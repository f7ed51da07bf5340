#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of tools/gpu_check.sh as results.json and summary.md; prints the short part.

    tools/bench/gpu_report.py LOGS FOLDER

LOGS holds steps.tsv (name, outcome, seconds) and a file of output per step; lines that are JSON
objects are figures.
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


def read(logs):
    steps = [line.split("\t") for line in (logs / "steps.tsv").read_text().splitlines()]
    devices = logs / "devices.txt"
    return {
        "date": datetime.date.today().isoformat(),
        "device": "; ".join(devices.read_text().splitlines()) if devices.exists() else "",
        "steps": [{"name": name, "outcome": outcome, "seconds": int(seconds)}
                  for name, outcome, seconds in steps],
        "bench": figures(logs / "bench.txt"),
        "bench_fast": figures(logs / "bench_fast.txt"),
        "torch": figures(logs / "torch.txt"),
        "kernels": figures(logs / "kernels.txt"),
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


# Rows of the table of both classes: exact / fast is the cost of bits that do not depend on other
# rows.
def class_rows(results):
    exact, fast = rates(results["bench"]), rates(results["bench_fast"])
    for case in exact:
        if fast.get(case):
            yield [case, f"{exact[case]:.1f}", f"{fast[case]:.1f}",
                   f"{exact[case] / fast[case]:.2f}"]


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
    classes = list(class_rows(results))
    if classes:
        parts.append("Both numeric classes, tokens per second:\n")
        parts.append(table(["case", "exact", "--fast", "exact / fast"], classes))
    return "\n".join(parts)


def kernel_part(results):
    rows = [[k["kernel"], k["shape"], k["us"], k["gb_s"], k["gflop_s"]]
            for k in results["kernels"] if k["kernel"] != "copy"]
    return "\n" + table(["kernel", "shape", "us", "GB/s", "GFLOP/s"], rows) if rows else ""


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    logs, folder = map(pathlib.Path, sys.argv[1:])
    results = read(logs)
    short = short_part(results)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "summary.md").write_text(short + kernel_part(results))
    print(short)


if __name__ == "__main__":
    main()
