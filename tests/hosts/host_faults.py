#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills, cuts off and slows down hosts, one after another, while their cluster answers.

    tests/hosts/host_faults.py LOCKSTEP                # the demo model on two and on three hosts
    tests/hosts/host_faults.py LOCKSTEP --shape tinyllama --tokens 60

Needs root: hosts are network namespaces, with a worker on each, and the coordinator on the first.
Every fault strikes during an answer, at a moment drawn from --seed; the answer must be the same as
that of a single process. Prints a line per fault, and exits with 1 if an answer differs.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster import ROOT, Cluster, Loopback, Namespaces

sys.path.insert(0, str(ROOT / "tools/bench"))
from compare import model_folder  # noqa: E402
from shapes import SHAPES  # noqa: E402

CUT_S = 4  # This is longer than the limit for a silent worker.


def kill(cluster: Cluster, host: int, ended: threading.Event) -> None:
    """Kills all workers on the host, and restarts them when the coordinator has noticed it."""
    ranks = [rank for rank, at in enumerate(cluster.hosts) if at == host]
    begin = len(cluster.server.log)
    for rank in ranks:
        cluster.workers[rank].close()
    cluster.server.wait_for("was lost", begin)
    for rank in ranks:
        cluster.workers[rank] = cluster.worker(rank)


def cut(cluster: Cluster, host: int, ended: threading.Event) -> None:
    cluster.network.run(host, "ip", "link", "set", f"lk{host + 1}", "down")
    time.sleep(CUT_S)
    cluster.network.run(host, "ip", "link", "set", f"lk{host + 1}", "up")


def slow(cluster: Cluster, host: int, ended: threading.Event) -> None:
    """Slows the host down until the answer is complete."""
    queue = ["dev", f"lk{host + 1}", "root"]
    rate = "3mbit" if cluster.model == "demo" else "100mbit"
    cluster.network.run(host, "tc", "qdisc", "add", *queue, "tbf", "rate", rate, "burst", "32kbit",
                        "latency", "400ms")
    ended.wait()
    cluster.network.run(host, "tc", "qdisc", "del", *queue)


def answer_during(fault, cluster: Cluster, host: int, tokens: int, after_s: float) -> tuple:
    """Returns the text, and the times of the fault and of the answer. If the answer ends before the
    fault, the request is sent again, with an earlier fault."""
    answers, ended, begin = [], threading.Event(), time.monotonic()

    def ask() -> None:
        try:
            text = cluster.text(tokens)
        except (KeyError, json.JSONDecodeError, subprocess.SubprocessError) as problem:
            text = f"no answer: {problem}"
        answers.append((text, after_s, time.monotonic() - begin))
        ended.set()

    asker = threading.Thread(target=ask)
    asker.start()
    late = ended.wait(after_s)
    if not late:
        fault(cluster, host, ended)
    asker.join()
    return answer_during(fault, cluster, host, tokens, after_s / 2) if late else answers[0]


def strike_all(cluster: Cluster, tokens: int, want: str, draw: random.Random) -> int:
    """Returns the number of answers that differ."""
    wrong = 0
    for fault in (kill, cut, slow):
        for host in sorted(set(cluster.hosts), reverse=True):
            cluster.wait_for_all()
            begin = time.monotonic()
            wrong += cluster.text(tokens) != want
            whole_s = time.monotonic() - begin
            text, fault_s, took_s = answer_during(fault, cluster, host, tokens,
                                                  draw.uniform(0, whole_s))
            wrong += text != want
            print(f"  host {host}: {fault.__name__} at {fault_s:.1f} s, answered at "
                  f"{took_s:.1f} s, undisturbed at {whole_s:.1f} s, "
                  f"{'the same' if text == want else f'differs: {text!r}'}", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep")
    parser.add_argument("--hosts", default="2,3", help="(default: %(default)s)")
    parser.add_argument("--shape", choices=SHAPES, help="random weights (default: the demo model)")
    parser.add_argument("--tokens", type=int, default=400, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, wrong = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        model, flags = ROOT / "demo", []
        if options.shape:
            model = model_folder(Path(folder), options.shape, SHAPES[options.shape])
            flags = ["--random-weights", "1", "--quantize", "q8", "--max-context", "1024"]
        with Cluster(options.lockstep, Loopback(), [0], *flags, model=model) as one_process:
            want = one_process.text(options.tokens)
        for hosts in [int(count) for count in options.hosts.split(",")]:
            print(f"{model.name} on {hosts} hosts, {options.tokens} tokens, seed {options.seed}")
            with Namespaces(hosts) as network, Cluster(
                    options.lockstep, network, list(range(hosts)), *flags, model=model) as cluster:
                wrong += strike_all(cluster, options.tokens, want, draw)
    print(f"{wrong} answers differ")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
