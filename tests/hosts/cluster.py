# SPDX-License-Identifier: Apache-2.0
"""A server and workers of several hosts, as processes: simulated hosts over loopback, or network
namespaces, which need root."""
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMESPACES = ROOT / "tools/bench/namespaces.sh"
PATIENCE_S = 100
PROMPT = "Once upon a time"
TOKEN = "a token of the test"


class Loopback:
    """Simulated hosts: their processes are started without a prefix, and share one address."""

    def command(self, _host: int) -> list:
        return []

    def address(self, _host: int) -> str:
        return "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Namespaces(Loopback):
    """Hosts as the network namespaces of tools/bench/namespaces.sh, within a `with` block."""

    def __init__(self, count: int):
        self.count = count

    def command(self, host: int) -> list:
        return ["ip", "netns", "exec", f"lockstep{host + 1}"]

    def address(self, host: int) -> str:
        return f"10.77.0.{host + 1}"

    def run(self, host: int, *command: str) -> None:
        subprocess.run([*self.command(host), *command], check=True)

    def __enter__(self):
        subprocess.run([NAMESPACES, "up", str(self.count)], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run([NAMESPACES, "down"], check=True)


class Process:
    """A process whose log is read and kept."""

    def __init__(self, command: list):
        self.popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
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
        """Waits for the first line from `begin` on that matches the pattern."""
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
    """hosts[i] is the host of worker i. The coordinator is on host 0."""

    def __init__(self, lockstep: str, network: Loopback, hosts: list, *arguments: str,
                 model: Path = ROOT / "demo", worker_flags: tuple = ()):
        self.lockstep = lockstep
        self.network = network
        self.hosts = hosts
        self.model = model.name
        self.worker_flags = worker_flags
        self.server = self.process(
            0, "serve", str(model), "--wait-workers", str(len(hosts)), "--cluster",
            f"{network.address(0)}:0", "--insecure", "cluster", "--http", "127.0.0.1:0", "--grpc",
            "127.0.0.1:0", *arguments)
        self.workers = []
        try:
            self.joins_at = self.server.wait_for(r"awaited at (\S+?),").group(1)
            self.workers = [self.worker(rank) for rank in range(len(hosts))]
            self.http = self.server.wait_for(r"HTTP at (\S+?),").group(1)
            self.server.wait_for("ready;")
        except BaseException:
            self.close()
            raise

    def process(self, host: int, *arguments: str) -> Process:
        """Starts lockstep on the host."""
        return Process([*self.network.command(host), self.lockstep, *arguments])

    def worker(self, rank: int) -> Process:
        host = self.hosts[rank]
        return self.process(host, "worker", "--coordinator", self.joins_at, "--threads", "1",
                            "--rank", str(rank), "--host-name", f"host{host}", "--data-listen",
                            f"{self.network.address(host)}:0", "--insecure", "cluster",
                            *self.worker_flags)

    def get(self, path: str, *arguments: str) -> dict:
        """Runs curl on host 0, which may be in another network."""
        answer = subprocess.run(
            [*self.network.command(0), "curl", "-sS", f"http://{self.http}{path}", *arguments],
            capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return json.loads(answer.stdout)

    def text(self, tokens: int = 40) -> str:
        """Returns the text of a greedy completion."""
        body = json.dumps({"model": self.model, "prompt": PROMPT, "max_tokens": tokens,
                           "temperature": 0, "ignore_eos": True})
        answer = self.get("/v1/completions", "-H", "Content-Type: application/json", "-d", body)
        return answer["choices"][0]["text"]

    def wait_for_all(self) -> None:
        """Waits until the group has all workers again."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = self.get("/cluster")
            if found["ready"] and len(found["ranks"]) == len(self.hosts):
                return
            time.sleep(0.1)
        raise AssertionError(f"{len(found['ranks'])} ranks: " + "".join(self.server.log[-20:]))

    def eventually(self, tokens: int = 40) -> str:
        """Returns the text as soon as the server serves again."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                return self.text(tokens)
            except (KeyError, json.JSONDecodeError, subprocess.SubprocessError):
                time.sleep(0.1)
        raise AssertionError("it does not serve again: " + "".join(self.server.log[-20:]))

    def close(self) -> None:
        for process in [*self.workers, self.server]:
            process.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
