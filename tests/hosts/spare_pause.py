#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pause that a client sees when a worker is killed and a spare takes its place.

    tests/hosts/spare_pause.py LOCKSTEP                        # a shape of 1.1 billion weights
    tests/hosts/spare_pause.py LOCKSTEP --shape '' --rounds 9  # the demo model

There are three cases: the spare holds the lost rank's weights; or it holds another rank's weights,
and loads the lost rank's from the weight cache; or it loads them without this cache. Prints a line
per case: the longest pause of a stream (median and max of the rounds), and the time per token,
without and with a spare that loads in the background. Exits with 1 if a text differs from the
undisturbed one.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from cluster import PATIENCE_S, PROMPT, ROOT, Cluster, Loopback, Process

sys.path.insert(0, str(ROOT / "tools/bench"))
from compare import model_folder  # noqa: E402
from shapes import SHAPES  # noqa: E402

LOST = 1  # The rank whose worker is killed.
# A spare's behaviour, the rank whose weights it holds, and its flags.
CASES = {"holds": ("holds the rank's weights", LOST, []),
         "cache": ("loads them from the cache", 0, []),
         "anew": ("loads them anew", 0, ["--weight-cache", "off"])}
SEEN = "holds the weights"  # The server's log has this after the spare has loaded.


class Stream:
    """A greedy completion, event by event."""

    def __init__(self, cluster: Cluster, tokens: int):
        body = json.dumps({"model": cluster.model, "prompt": PROMPT, "max_tokens": tokens,
                           "temperature": 0, "ignore_eos": True, "stream": True})
        request = urllib.request.Request(f"http://{cluster.http}/v1/completions", body.encode(),
                                         {"Content-Type": "application/json"})
        self.answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
        self.text, self.times = "", []

    def read(self, events: int = sys.maxsize, until=lambda: False) -> "Stream":
        """Reads `events` more events, or until until() is true."""
        for line in self.answer:
            if not line.startswith(b"data: {"):
                continue
            self.times.append(time.monotonic())
            self.text += json.loads(line[6:])["choices"][0]["text"]
            events -= 1
            if events == 0 or until():
                break
        return self

    def gaps(self, begin: int = 0) -> list:
        return [b - a for a, b in zip(self.times[begin:], self.times[begin + 1:])]


def start_spare(cluster: Cluster, rank: int, *flags: str) -> Process:
    return cluster.process(0, "worker", "--coordinator", cluster.joins_at, "--threads", "1",
                           "--host-name", "host0", "--spare", "--rank", str(rank), *flags)


def run_round(options, model: Path, flags: list, held: int, cache: list) -> tuple:
    """Returns whether the texts are equal, the longest pause, and the median times between events
    before and while the spare loads."""
    with Cluster(options.lockstep, Loopback(), [0] * options.workers, *flags,
                 model=model, worker_flags=cache) as cluster:
        quiet = Stream(cluster, options.tokens).read()
        loading = Stream(cluster, 400).read(1)
        spare = start_spare(cluster, held, *cache)
        cluster.workers.append(spare)
        loading.read(until=lambda: any(SEEN in line for line in cluster.server.log))
        loading.answer.close()
        cluster.server.wait_for(SEEN)
        stream = Stream(cluster, options.tokens).read(options.tokens // 2)
        cluster.workers[LOST].close()
        stream.read()
        cluster.server.wait_for(f"rank {LOST} (.*) was lost")
        takes = any("is assigned to a spare that holds" in line for line in cluster.server.log)
        assert takes == (held == LOST), "".join(cluster.server.log[-20:])
        same = stream.text == quiet.text
        return (same, max(stream.gaps(options.tokens // 2 - 2)), statistics.median(quiet.gaps()),
                statistics.median(loading.gaps() or [0]), len(loading.times))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep")
    parser.add_argument("--shape", default="tinyllama", help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=40, help="(default: %(default)s)")
    parser.add_argument("--cases", default=",".join(CASES), help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        model, flags = ROOT / "demo", ["--grace-ms", "1000000", "--log-level", "info"]
        if options.shape:
            model = model_folder(Path(folder), options.shape, SHAPES[options.shape])
            flags += ["--random-weights", "1", "--quantize", "q8", "--max-context", "1024"]
        print(f"{model.name}, {options.workers} workers, {options.tokens} tokens, "
              f"{options.rounds} rounds")
        for name, held, cache in [CASES[case] for case in options.cases.split(",")]:
            rounds = [run_round(options, model, flags, held, cache) for _ in range(options.rounds)]
            pauses = sorted(one[1] for one in rounds)
            wrong += sum(not one[0] for one in rounds)
            quiet, loading = (1000 * statistics.median(one[i] for one in rounds) for i in (2, 3))
            print(f"  a spare that {name:25}: paused {statistics.median(pauses):5.2f} s (at most "
                  f"{pauses[-1]:.2f}); {quiet:.0f} ms per token, {loading:.0f} ms while it loads",
                  flush=True)
    print(f"{wrong} texts differ")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
