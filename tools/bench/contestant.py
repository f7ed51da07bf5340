# SPDX-License-Identifier: Apache-2.0
"""A program that measures cases: it is started once and reads one case at a time."""

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from environment import Problem
from memory import children, pss_bytes


@dataclass
class Contestant:
    """Reads the lines of `lockstep bench --cases - --json`: one about the program, then one per
    case."""

    name: str
    command: list[str]
    about: dict = field(default_factory=dict)
    first_token_s: float = 0.0
    _process: subprocess.Popen | None = None

    def start(self, log: Path) -> None:
        """Starts the program, waits for its first token, and measures first_token_s."""
        begin = time.perf_counter()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.about = self._answer(log)
        self._log = log
        self.seconds("prefill:1")
        self.first_token_s = time.perf_counter() - begin

    def _answer(self, log: Path) -> dict:
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self.stop()
        words = log.read_text().strip().splitlines()[-1:] or ["it printed nothing"]
        raise Problem(f"{self.name} ended early: {words[0]}")

    def seconds(self, case: str) -> float:
        self._process.stdin.write(f"{case}\n")
        self._process.stdin.flush()
        return self._answer(self._log)["seconds"][0]

    def memory_beyond_weights(self) -> int:
        """Bytes of the program's processes, without the weights and Python itself (own_bytes)."""
        held = pss_bytes(children(self._process.pid))
        return held - self.about["weight_bytes"] - self.about.get("own_bytes", 0)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.communicate()  # It ends when its input ends.
