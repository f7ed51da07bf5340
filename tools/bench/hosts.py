#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two ranks in two network namespaces with two ranks that share memory. Run it as root:

    tools/bench/namespaces.sh up 2
    ip netns exec lockstep1 tools/bench/hosts.py [--rounds 7] [--build build/cpu]

Both servers run at once, with random weights of TinyLlama's shape in q8 and one thread per rank.
They answer two requests alternately: one token after a prompt of 512 tokens, and 128 tokens after a
prompt of one token.
Figures are medians over the rounds; a ratio is shared memory's time divided by the namespaces'
time.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from compare import model_folder  # noqa: E402
from shapes import SHAPES  # noqa: E402

SHAPE = SHAPES["tinyllama"]
SECOND = ["ip", "netns", "exec", "lockstep2"]


def start(command: list) -> subprocess.Popen:
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "LOCKSTEP_JOIN_TOKEN": "a token of the benchmark"})


def found_in(process: subprocess.Popen, pattern: str) -> re.Match:
    for line in process.stderr:
        if found := re.search(pattern, line):
            return found
    raise RuntimeError(f"{process.args[0]} ended without {pattern!r}")


class Server:
    """`serve` here, with both ranks here or one in the second namespace."""

    def __init__(self, lockstep: str, model: str, spans: bool):
        self.model = Path(model).name
        self.processes = [start([
            lockstep, "serve", model, "--random-weights", "1", "--quantize", "q8", "--http",
            "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cluster", "10.77.0.1:0", "--insecure",
            "cluster", "--wait-workers", "2", "--max-context", "1024"])]
        found = found_in(self.processes[0], r"HTTP at \S+:(\d+), workers are awaited at (\S+?),")
        self.url = f"http://127.0.0.1:{found.group(1)}/v1/completions"
        for rank in range(2):
            self.processes.append(start([
                *(SECOND if spans and rank == 1 else []), lockstep, "worker", "--coordinator",
                found.group(2), "--threads", "1", "--rank", str(rank), "--processors", str(rank),
                "--insecure", "cluster", "--log-level", "error"]))
        found_in(self.processes[0], "ready;")
        threading.Thread(target=self.processes[0].stderr.read, daemon=True).start()

    def seconds(self, prompt: list, tokens: int) -> float:
        body = {"model": self.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0,
                "ignore_eos": True}
        begin = time.monotonic()
        request = urllib.request.Request(self.url, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            usage = json.load(answer)["usage"]
        assert usage["completion_tokens"] == tokens and usage["prompt_tokens"] == len(prompt), usage
        return time.monotonic() - begin

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def measure(servers: list, rounds: int) -> list:
    """Seconds by server, then by case."""
    draw = random.Random(1)
    times = [{"prefill:512": [], "decode:128": []} for _ in servers]
    for turn in range(rounds + 1):  # The first one warms up.
        for i in [0, 1] if turn % 2 else [1, 0]:
            prompt = [draw.randrange(300, SHAPE.vocab) for _ in range(512)]
            first = servers[i].seconds(prompt, 1)
            one = [draw.randrange(300, SHAPE.vocab)]
            rest = servers[i].seconds(one, 129) - servers[i].seconds(one, 1)
            if turn > 0:
                times[i]["prefill:512"].append(first)
                times[i]["decode:128"].append(rest)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", default="build/cpu")
    options = parser.parse_args()
    lockstep = str(Path(options.build) / "bin" / "lockstep")
    with tempfile.TemporaryDirectory() as folder:
        model = str(model_folder(Path(folder), "tinyllama", SHAPE))
        servers = []
        try:
            servers = [Server(lockstep, model, spans) for spans in (False, True)]
            shared, apart = measure(servers, options.rounds)
        finally:
            for server in servers:
                server.close()
    print("| case | shared memory | two namespaces | ratio |\n| --- | --- | --- | --- |")
    for case, tokens in (("prefill:512", 512), ("decode:128", 128)):
        a, b = statistics.median(shared[case]), statistics.median(apart[case])
        ratio = statistics.median(x / y for x, y in zip(shared[case], apart[case]))
        print(f"| {case} | {tokens / a:.1f} tokens/s | {tokens / b:.1f} tokens/s | {ratio:.3f} |")


if __name__ == "__main__":
    main()
