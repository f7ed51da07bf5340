#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/reliability.md, measured at a server with the demo model on two workers.

    tests/gates/figures.py build/cpu/bin/lockstep            # all, some minutes
    tests/gates/figures.py build/cpu/bin/lockstep r6 r9      # only these gates

Prints one line per gate. Needs a quiet machine; r9 needs root, for a network namespace.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from serve import Lost, Server, call, events, head_of, streamed_text  # noqa: E402

STORY = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 200, "seed": 1,
         "ignore_eos": True}
COMPLETIONS = "/v1/completions"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))] if values else 0.0


async def idle(server: Server, until: float = 60) -> float:
    """Waits until no request is left; returns the seconds that it took."""
    begin = time.monotonic()
    while time.monotonic() < begin + until:
        try:
            state = (await call(server.port, "/cluster")).json()
            if state["running"] == state["waiting"] == 0:
                break
        except (OSError, EOFError):
            pass  # There are still too many connections.
        await asyncio.sleep(0.005)
    return time.monotonic() - begin


async def gaps_of(port: int, request: dict, gaps: list[float]) -> None:
    """Streams an answer, and appends the seconds between its events."""
    last = None
    async for _ in events(port, request):
        now = time.monotonic()
        if last is not None:
            gaps.append(now - last)
        last = now


async def r5_drain(lockstep: str) -> str:
    server = Server(lockstep)
    tasks = [asyncio.create_task(streamed_text(server.port, {**STORY, "seed": seed}))
             for seed in range(16)]
    await asyncio.sleep(0.1)
    server.process.terminate()
    begin = time.monotonic()
    while (await call(server.port, "/readyz")).status == 200:
        pass
    unready = time.monotonic() - begin
    refused = await call(server.port, COMPLETIONS, STORY)
    texts = await asyncio.gather(*tasks)
    served = time.monotonic() - begin
    code = server.process.wait(60)
    return (f"not ready after {ms(unready)}; a new request: {refused.status}, Retry-After "
            f"{refused.headers.get('retry-after')}; {sum(map(bool, texts))} of 16 streams whole; "
            f"exit {code}, {ms(time.monotonic() - begin - served)} after the last of them")


async def r6_overload(lockstep: str, choices: int = 1) -> str:
    request = {**STORY, "n": choices}
    tokens = choices * STORY["max_tokens"]
    with Server(lockstep) as server:
        alone = []
        for _ in range(10):
            begin = time.monotonic()
            async for _ in events(server.port, request):
                alone.append(time.monotonic() - begin)
                break
        await idle(server)
        served = 0
        end = time.monotonic() + 15

        async def client():
            nonlocal served
            while time.monotonic() < end:
                await call(server.port, COMPLETIONS, request)
                served += 1

        begin = time.monotonic()
        await asyncio.gather(*(client() for _ in range(64 // choices)))
        peak = served / (time.monotonic() - begin)
        memory, done, refusals = server.memory(), [], []

        async def one():
            begin = time.monotonic()
            try:
                status = (await call(server.port, COMPLETIONS, request)).status
            except (OSError, EOFError):
                status = 0  # There were too many connections.
            if status == 200:
                done.append(time.monotonic())
            else:
                refusals.append(time.monotonic() - begin)

        tasks = []
        begin = time.monotonic() + 15  # By then the queue is full and the first answers have ended.
        while time.monotonic() < begin + 45:
            tasks.append(asyncio.create_task(one()))
            await asyncio.sleep(1 / (10 * peak))
        goodput = sum(end >= begin for end in done) / (time.monotonic() - begin)
        growth = (server.memory() - memory) / 2**20
        for task in tasks:
            task.cancel()
        back = await idle(server)
    return (f"peak {peak * tokens:.0f} tokens/s; at 10 times the rate for 60 s "
            f"{goodput * tokens:.0f} tokens/s ({goodput / peak:.0%}), memory +{growth:.0f} MiB; "
            f"{len(refusals)} refused, p99 {ms(p99(refusals))}; idle {ms(back)} after all hung up; "
            f"first token alone p99 {ms(p99(alone))}")


async def r7_hang_ups(lockstep: str) -> str:
    with Server(lockstep) as server:
        await streamed_text(server.port, STORY)
        descriptors, memory = server.descriptors(), server.memory()
        times = []

        async def one(number: int):
            left = number % 150
            async for _ in events(server.port, {**STORY, "seed": number}):
                left -= 1
                if left < 0:
                    return

        for batch in range(100):
            await asyncio.gather(*(one(100 * batch + client) for client in range(100)))
            times.append(await idle(server))
        await asyncio.sleep(0.2)
        pages = (await call(server.port, "/cluster")).json()["pages"]
        return (f"10,000 streams cut; nothing runs {ms(statistics.median(times))} after the last "
                f"of 100 (at most {ms(max(times))}); pages {pages['free']} of {pages['total']} "
                f"free, descriptors {descriptors} -> {server.descriptors()}, memory "
                f"{(server.memory() - memory) / 2**20:+.0f} MiB")


async def r8_slow_readers(lockstep: str) -> str:
    with Server(lockstep) as server:
        alone, beside = [], []
        for _ in range(5):
            await gaps_of(server.port, STORY, alone)
        body = json.dumps({**STORY, "stream": True}).encode()
        writers = []
        memory = server.memory()
        for _ in range(500):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
            writer.transport.pause_reading()
            writer.write(head_of("POST", COMPLETIONS, body) + body)
            writers.append(writer)
        await idle(server)  # All requests have ended; unread answers wait in logs and sockets.
        growth = (server.memory() - memory) / 2**20
        for _ in range(5):
            await gaps_of(server.port, STORY, beside)
        for writer in writers:
            writer.transport.abort()
    return (f"500 that never read: memory +{growth:.0f} MiB; between events of another stream p99 "
            f"{p99(alone) * 1e3:.1f} ms without, {p99(beside) * 1e3:.1f} ms with them")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


async def r9_half_open(lockstep: str) -> str:
    """A client in its own network namespace. Its link goes down during its answer."""
    if os.geteuid() != 0:
        return "needs root"
    ip("netns", "add", "gates")
    try:
        ip("link", "add", "gates0", "type", "veth", "peer", "name", "gates1", "netns", "gates")
        ip("addr", "add", "10.213.0.1/24", "dev", "gates0")
        ip("link", "set", "gates0", "up")
        ip("-n", "gates", "addr", "add", "10.213.0.2/24", "dev", "gates1")
        ip("-n", "gates", "link", "set", "gates1", "up")
        body = json.dumps({**STORY, "n": 64, "max_tokens": 900, "stream": True}).encode()
        with Server(lockstep, "--insecure", "http", host="0.0.0.0") as server:
            script = ("import socket,sys,time\n"
                      f"s=socket.create_connection(('10.213.0.1',{server.port}))\n"
                      "s.sendall(sys.stdin.buffer.read());s.recv(100)\n"
                      "print('begun',flush=True);time.sleep(1000)")
            client = subprocess.Popen(
                ["ip", "netns", "exec", "gates", sys.executable, "-c", script],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            client.stdin.write(head_of("POST", COMPLETIONS, body) + body)
            client.stdin.close()
            client.stdout.readline()
            descriptors = server.descriptors()
            ip("link", "set", "gates0", "down")
            begin = time.monotonic()
            while server.descriptors() >= descriptors and time.monotonic() < begin + 60:
                await asyncio.sleep(0.05)
            took = time.monotonic() - begin
            client.kill()
            client.wait()
        return f"a streaming client whose network is gone: freed after {took:.1f} s"
    finally:
        ip("netns", "del", "gates")


async def r32_metrics(lockstep: str) -> str:
    with Server(lockstep) as server:
        await asyncio.gather(*(streamed_text(server.port, STORY) for _ in range(64)))
        times = []
        for _ in range(200):
            begin = time.monotonic()
            answer = await call(server.port, "/metrics")
            times.append(time.monotonic() - begin)
        series = sum(not line.startswith(b"#") for line in answer.body.splitlines())
    return (f"/metrics, {series} series: median {statistics.median(times) * 1e3:.1f} ms, p99 "
            f"{p99(times) * 1e3:.1f} ms, connection included")


async def r6_choices(lockstep: str) -> str:
    """Measures r6 with eight choices per request."""
    return await r6_overload(lockstep, choices=8)


GATES = {"r5": r5_drain, "r6": r6_overload, "r6n": r6_choices, "r7": r7_hang_ups,
         "r8": r8_slow_readers, "r9": r9_half_open, "r32": r32_metrics}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("gates", nargs="*", metavar="GATE", help=" ".join(GATES))
    options = parser.parse_args()
    failed = False
    for name in options.gates or GATES:
        try:
            print(f"{name.upper()}: {asyncio.run(GATES[name](options.binary))}", flush=True)
        except (Lost, OSError, EOFError, KeyError, AssertionError) as error:
            print(f"{name.upper()}: failed: {type(error).__name__}: {error}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
