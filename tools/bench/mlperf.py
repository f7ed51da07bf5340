#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The load of MLPerf Inference's Llama-3.1-8B on this machine, beside the published result.

    tools/bench/mlperf.py                                  # some minutes on two cores
    tools/bench/mlperf.py --shape llama32-1b --requests 64

Random weights of the shape, in int8 with one scale per row; every answer has 128 tokens, as in the
published result. Two scenarios:

  offline  all requests are sent at once: tokens of answers per second.
  server   requests are sent at random times. The result is the highest rate found at which the
           99th percentile of the time to the first token is at most 2 s, and that of the time per
           later token at most 100 ms.

Each result is divided by the cores that computed it. The share is that of the machine's own limit
of int8 products (build/cpu/bin/limits), over all operations of prompts and answers.

It is no MLPerf result: the weights are random, and so are the prompts. Their lengths follow a
lognormal distribution that was chosen here, since the benchmark's articles (CNN/DailyMail, at most
2,752 tokens) may not be copied.
"""

import argparse
import json
import math
import os
import random
import string
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compare import Machine, model_folder
from environment import Problem, built, say
from serving import Server
from shapes import INT8_ROWS, SHAPES, Shape

HERE = Path(__file__).resolve().parent

OUTPUT_TOKENS = 128
MEDIAN_PROMPT, PROMPT_DEVIATION = 800, 0.45
MAX_CONTEXT = 2880  # That of the published run.
# Tokens are drawn: with random weights, greedy texts may repeat a byte that shows no character.
BODY = {"ignore_eos": True, "temperature": 1}
FIRST_TOKEN_MS, LATER_TOKEN_MS = 2000, 100


@dataclass(frozen=True)
class Published:
    """github.com/mlcommons/inference_results_v6.1, closed/Intel, 1-node-2S-GNR_128C: two Xeon 6980P
    with vLLM in int8."""

    cores: int = 256
    offline: float = 1916.74  # Tokens per second.
    server: float = 1139.51


def operations(shape: Shape, prompt_tokens: int, output_tokens: int, requests: int) -> float:
    """Multiplications and additions of these requests. The attention of a request of n positions
    multiplies n^2 / 2 pairs of them; the mean is used for n."""
    positions = (prompt_tokens + output_tokens) / requests
    attention = 2 * shape.layers * shape.heads * shape.head_dim * positions
    each = 2 * shape.layer_weights + attention
    return (prompt_tokens + output_tokens) * each + 2 * output_tokens * shape.head_weights


def write_prompts(path: Path, count: int) -> None:
    """Writes prompts of random letters. In the vocabulary of compare.py a letter is a token."""
    draw = random.Random(1)
    with path.open("w") as file:
        for _ in range(count):
            length = draw.lognormvariate(math.log(MEDIAN_PROMPT), PROMPT_DEVIATION)
            length = min(max(int(length), 1), MAX_CONTEXT - OUTPUT_TOKENS - 2)
            file.write("".join(draw.choices(string.ascii_lowercase, k=length)) + "\n")


class Load:
    """Loads of one server, by `lockstep bench serve`."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.prompts = options.work / "mlperf-prompts.txt"
        write_prompts(self.prompts, options.requests)

    def run(self, *flags: str) -> dict:
        command = [
            str(built(self.options.build, "lockstep")), "bench", "serve", "--url",
            f"http://127.0.0.1:{self.options.port}", "--requests", str(self.options.requests),
            "--prompts", str(self.prompts), "--output-tokens", str(OUTPUT_TOKENS), "--timeout",
            "36000", "--json", "--extra-body", json.dumps(BODY), *flags,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Problem(f"bench serve: {done.stderr.strip() or done.stdout.strip()}")
        return json.loads(done.stdout)

    def offline(self) -> dict:
        say(f"offline: {self.options.requests} requests at once")
        return self.run("--concurrency", str(self.options.requests))

    def server(self, offline: dict) -> dict | None:
        """The best run that holds both limits, by bisection below the rate of offline."""
        low, high, best = 0.0, offline["requests_per_s"], None
        for _ in range(self.options.trials):
            rate = (low + high) / 2
            found = self.run("--rate", f"{rate:.4f}")
            first, later = found["ttft_ms"]["p99"], found["tpot_ms"]["p99"]
            holds = first <= FIRST_TOKEN_MS and later <= LATER_TOKEN_MS
            say(f"server: {rate:.3f} requests/s, p99 {first:.0f} ms and {later:.0f} ms per token: "
                f"{'holds' if holds else 'too slow'}")
            if holds:
                low, best = rate, found
            else:
                high = rate
        return best


def serve(options: argparse.Namespace) -> Server:
    shape = SHAPES[options.shape]
    folder = model_folder(options.work, f"{options.shape}-served", shape)
    command = [
        str(built(options.build, "lockstep")), "serve", str(folder), "--random-weights", "1",
        *INT8_ROWS.flags, "--kv-dtype", "int8", "--threads", str(options.threads),
        "--weight-cache", "off", "--http", f"127.0.0.1:{options.port}", "--grpc", "off",
        "--max-context", str(MAX_CONTEXT), "--no-prefix-cache", *options.serve,
    ]
    return Server("lockstep", command, options.port, "/readyz", {})


def limit_of(options: argparse.Namespace) -> float:
    """The machine's int8 products per second with these threads."""
    all_limits = Machine(built(options.build, "limits")).ask()["limits"]
    best = max(all_limits, key=lambda one: one["threads"])
    gop = best.get("int8_gop_per_s", best["fp32_gop_per_s"]) / best["threads"]
    return gop * 1e9 * options.threads


def row(name: str, found: dict | None, published: float, shape: Shape, limit: float,
        threads: int) -> str:
    theirs = published / Published.cores
    if found is None:
        return f"| {name} | no rate holds the limits | | | {published:.0f} | {theirs:.2f} | |"
    rate = found["output_tokens_per_s"]
    done = operations(shape, found["prompt_tokens"], found["output_tokens"], found["answered"])
    share = done / found["duration_s"] / limit
    return (f"| {name} | {rate:.2f} | {rate / threads:.2f} | {100 * share:.0f} % | "
            f"{published:.0f} | {theirs:.2f} | {rate / threads / theirs:.2f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="llama31-8b")
    parser.add_argument("--requests", type=int, default=32, help="(default: %(default)s)")
    parser.add_argument("--trials", type=int, default=4,
                        help="rates tried for `server`; 0: only offline (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="(default: all processors)")
    parser.add_argument("--port", type=int, default=18200)
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build" / "cpu")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "lockstep" / "bench")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[],
                        help="further flags of `lockstep serve`")
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    try:
        limit = limit_of(options)
        server = serve(options)
        load = Load(options)
        try:
            server.start(options.work / "mlperf.log")
            offline = load.offline()
            best = load.server(offline) if options.trials > 0 else None
        finally:
            server.stop()
    except Problem as problem:
        say(str(problem))
        return 2
    mean = offline["prompt_tokens"] / offline["answered"]
    print(f"{options.shape}, int8, {options.threads} threads, {options.requests} requests, prompts "
          f"of {mean:.0f} tokens on average\n")
    print("| scenario | tokens/s | per core | share of int8 products | published, 2 x 6980P | "
          "per core | ratio per core |\n| --- | --- | --- | --- | --- | --- | --- |")
    print(row("offline", offline, Published.offline, shape, limit, options.threads))
    if options.trials > 0:
        print(row("server", best, Published.server, shape, limit, options.threads))
    return 0


if __name__ == "__main__":
    sys.exit(main())
