#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs many streams of server-sent events for a long time. Nothing may be lost, nothing may grow.

    tests/gates/soak.py build/cpu/bin/lockstep                  # 10 minutes
    tests/gates/soak.py build/cpu/bin/lockstep --minutes 1 --idle 100 --busy 32

Starts `lockstep serve` with the demo model on two workers. `--busy` clients stream one answer after
another, each over a new connection; `--idle` clients wait in the queue after them all the time,
kept alive by empty lines, and are served after the busy ones have stopped. Each answer is compared
with that of the same request alone. Prints twice a minute the streamed events, the server's memory
and descriptors, and the times that GET / and GET /cluster take. Exits with 1 if an answer was lost
or differs, or if memory grew by more than --growth in the second half.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from serve import Lost, Server, call, streamed_text  # noqa: E402

PROMPTS = ["Once upon a time", "One morning", "The old ship", "Nobody knew why"]
TOKENS = (40, 120, 250)
PERIOD_S = 30


def request_of(number: int, priority: int) -> dict:
    """One of twelve requests, whose answers are known."""
    return {"model": "demo", "prompt": PROMPTS[number % len(PROMPTS)], "seed": number % 4,
            "max_tokens": TOKENS[number % len(TOKENS)], "priority": priority}


def kind_of(number: int) -> int:
    return number % 12


async def timed(port: int, path: str) -> float:
    """The milliseconds that a GET takes."""
    begin = time.monotonic()
    answer = await call(port, path)
    if answer.status != 200:
        raise Lost(f"{path}: {answer.status}")
    return (time.monotonic() - begin) * 1e3


class Soak:
    def __init__(self, server: Server, options: argparse.Namespace):
        self.server = server
        self.options = options
        self.counts = {"events": 0, "fillers": 0}
        self.answers = 0
        self.losses: list[str] = []
        self.alone: dict[int, str] = {}
        self.end = 0.0

    def count(self, line: bytes) -> None:
        self.counts["events" if line else "fillers"] += 1

    async def one(self, number: int, priority: int) -> None:
        try:
            text = await streamed_text(self.server.port, request_of(number, priority), self.count)
            if text != self.alone[kind_of(number)]:
                raise Lost("the text differs from the one alone")
            self.answers += 1
        except (Lost, OSError, EOFError, ValueError) as error:
            self.losses.append(str(error))

    async def busy(self, client: int) -> None:
        number = client
        while time.monotonic() < self.end:
            await self.one(number, priority=0)
            number += self.options.busy + 1

    async def watch(self, begin: float) -> list[tuple[float, int]]:
        """Prints a line per period. Returns pairs: seconds since `begin`, bytes of memory."""
        print("   min  answers  events/s   fillers  lost  memory  descriptors   page  /cluster")
        memory = []
        events = 0
        while time.monotonic() < self.end:
            await asyncio.sleep(min(PERIOD_S, max(0.0, self.end - time.monotonic())))
            page_ms = await timed(self.server.port, "/")
            state_ms = await timed(self.server.port, "/cluster")
            memory.append((time.monotonic() - begin, self.server.memory()))
            rate = (self.counts["events"] - events) / PERIOD_S
            events = self.counts["events"]
            print(f"{memory[-1][0] / 60:6.1f} {self.answers:8} {rate:9.0f} "
                  f"{self.counts['fillers']:9} {len(self.losses):5} "
                  f"{memory[-1][1] / 2**20:5.0f} M {self.server.descriptors():12} "
                  f"{page_ms:3.0f} ms {state_ms:6.0f} ms", flush=True)
        return memory

    async def run(self) -> bool:
        for number in range(12):
            self.alone[number] = await streamed_text(self.server.port, request_of(number, 0))
        begin = time.monotonic()
        self.end = begin + 60 * self.options.minutes
        tasks = [asyncio.create_task(self.busy(client)) for client in range(self.options.busy)]
        await asyncio.sleep(1)  # The busy clients run; a client that connects now waits after them.
        tasks += [asyncio.create_task(self.one(number, priority=1000))
                  for number in range(self.options.idle)]
        memory = await self.watch(begin)
        served_late = self.answers
        await asyncio.gather(*tasks)
        half = [bytes_ for when, bytes_ in memory if when > 30 * self.options.minutes]
        growth = (half[-1] - half[0]) / 2**20 if half else 0.0
        print(f"{self.answers} answers, {self.answers - served_late} of them after the busy "
              f"clients stopped; {len(self.losses)} lost; memory grew by {growth:.1f} MiB in the "
              "second half")
        for loss in sorted(set(self.losses)):
            print(f"lost: {self.losses.count(loss)} times: {loss}")
        return not self.losses and growth <= self.options.growth


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--busy", type=int, default=256)
    parser.add_argument("--growth", type=float, default=8, metavar="MIB")
    options = parser.parse_args()
    # On a shared machine a worker may get no processor for a second.
    server = Server(options.binary, "--max-running", str(options.busy), "--silent-ms", "10000")
    try:
        good = asyncio.run(Soak(server, options).run())
    finally:
        code = server.close()
    print(f"the server ended with exit code {code}")
    return 0 if good and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
