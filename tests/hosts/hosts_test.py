#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster whose workers are on several hosts: the same bits as one process, and it heals.

    tests/hosts/hosts_test.py LOCKSTEP                 hosts that are made up, over loopback
    tests/hosts/hosts_test.py LOCKSTEP --namespaces    network namespaces, as root

No figure here depends on how fast the machine is.
"""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKSTEP = sys.argv[1]
NAMESPACES = "--namespaces" in sys.argv
PATIENCE_S = 100
PROMPT = "Once upon a time"
TOKEN = "a token of the test"


def namespace(host: int) -> list:
    return ["ip", "netns", "exec", f"lockstep{host + 1}"] if NAMESPACES else []


def address(host: int) -> str:
    return f"10.77.0.{host + 1}" if NAMESPACES else "127.0.0.1"


class Process:
    """Its log is read and kept."""

    def __init__(self, host: int, *arguments: str):
        self.popen = subprocess.Popen(
            [*namespace(host), LOCKSTEP, *arguments], stderr=subprocess.PIPE, text=True,
            env={**os.environ, "LOCKSTEP_JOIN_TOKEN": TOKEN})
        self.log = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for line in self.popen.stderr:
            with self.changed:
                self.log.append(line)
                self.changed.notify_all()

    def wait_for(self, pattern: str, begin: int = 0) -> re.Match:
        """The first line from `begin` on that has the pattern."""
        end = time.monotonic() + PATIENCE_S
        with self.changed:
            while time.monotonic() < end:
                for line in self.log[begin:]:
                    if found := re.search(pattern, line):
                        return found
                self.changed.wait(1)
        raise AssertionError(f"no {pattern!r} in: " + "".join(self.log[-20:]))

    def close(self) -> None:
        self.popen.send_signal(signal.SIGCONT)
        self.popen.kill()
        self.popen.wait(PATIENCE_S)
        self.reader.join(PATIENCE_S)
        self.popen.stderr.close()


class Cluster:
    """hosts[i] is the host of worker i. The coordinator is on the first."""

    def __init__(self, hosts: list, *arguments: str):
        self.hosts = hosts
        self.server = Process(0, "serve", str(ROOT / "demo"), "--wait-workers", str(len(hosts)),
                              "--cluster", f"{address(0)}:0", "--insecure", "cluster", "--http",
                              "127.0.0.1:0", "--grpc", "127.0.0.1:0", *arguments)
        self.workers = []
        try:
            self.joins_at = self.server.wait_for(r"awaited at (\S+?),").group(1)
            self.workers = [self.worker(rank) for rank in range(len(hosts))]
            self.http = self.server.wait_for(r"HTTP at (\S+?),").group(1)
            self.server.wait_for("ready;")
        except BaseException:
            self.close()
            raise

    def worker(self, rank: int) -> Process:
        host = self.hosts[rank]
        return Process(host, "worker", "--coordinator", self.joins_at, "--threads", "1", "--rank",
                       str(rank), "--host-name", f"host{host}", "--data-listen",
                       f"{address(host)}:0", "--insecure", "cluster")

    def text(self, tokens: int = 40) -> str:
        """Of a greedy completion. Where the network is another one, curl goes there."""
        body = json.dumps({"model": "demo", "prompt": PROMPT, "max_tokens": tokens,
                           "temperature": 0})
        answer = subprocess.run(
            [*namespace(0), "curl", "-sS", f"http://{self.http}/v1/completions", "-H",
             "Content-Type: application/json", "-d", body],
            capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return json.loads(answer.stdout)["choices"][0]["text"]

    def eventually(self, tokens: int = 40) -> str:
        """The text as soon as the server serves again."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                return self.text(tokens)
            except (KeyError, json.JSONDecodeError, subprocess.SubprocessError):
                time.sleep(0.1)
        raise AssertionError("it serves no more: " + "".join(self.server.log[-20:]))

    def close(self) -> None:
        for process in [*self.workers, self.server]:
            process.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def text_of_one_process(tokens: int = 40) -> str:
    """What a single rank says."""
    with Cluster([0]) as cluster:
        return cluster.text(tokens)


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if NAMESPACES:
            subprocess.run([ROOT / "tools/bench/namespaces.sh", "up", "3"], check=True)
        cls.want = text_of_one_process()

    @classmethod
    def tearDownClass(cls):
        if NAMESPACES:
            subprocess.run([ROOT / "tools/bench/namespaces.sh", "down"], check=True)

    def test_ranks_on_any_hosts_give_the_bits_of_one_process(self):
        for hosts in [[0, 1], [0, 1, 2], [0, 0, 1], [1, 0, 1]]:
            for strategy in ["gather", "reduce"]:
                with self.subTest(hosts=hosts, strategy=strategy):
                    with Cluster(hosts, "--strategy", strategy) as cluster:
                        text = cluster.text()
                        self.assertIn("connected to", "".join(cluster.workers[0].log))
                        if strategy == "gather":
                            self.assertEqual(text, self.want)
                        else:
                            self.assertEqual(text, cluster.text())

    def test_a_killed_worker_comes_back_and_the_bits_are_the_same(self):
        with Cluster([0, 1]) as cluster:
            self.assertEqual(cluster.text(), self.want)
            for rank in [1, 0]:
                lines = len(cluster.server.log)
                cluster.workers[rank].close()
                cluster.server.wait_for("was lost", lines)
                cluster.workers[rank] = cluster.worker(rank)
                self.assertEqual(cluster.eventually(), self.want)

    def test_a_stopped_worker_is_lost_and_its_late_frames_do_no_harm(self):
        with Cluster([0, 1, 1]) as cluster:
            self.assertEqual(cluster.text(), self.want)
            lines = len(cluster.server.log)
            cluster.workers[2].popen.send_signal(signal.SIGSTOP)
            cluster.server.wait_for("was lost", lines)
            cluster.workers[2].popen.send_signal(signal.SIGCONT)
            self.assertEqual(cluster.eventually(), self.want)

    def test_a_worker_without_a_data_port_is_refused_with_the_way_out(self):
        with Cluster([0, 1]) as cluster:
            lone = Process(0, "worker", "--coordinator", cluster.joins_at, "--threads", "1",
                           "--host-name", "elsewhere")
            lone.wait_for(r"--data-listen ADDRESS:PORT and --cluster-cert or --insecure cluster")
            lone.close()
            self.assertEqual(cluster.text(), self.want)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
