#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that send requests without a pause, and compare each answer with the undisturbed one.

    load.py HTTP GRPC ANSWERS CLIENTS plain|tls

ANSWERS is a file of undisturbed answers, which is recorded if it is missing. A line on standard
input, `look` or `mark`, is answered by a line of JSON with the counts since the last `mark`. The
end of input ends the program.

An answer is lost if its request was accepted and the answer does not arrive whole. A request is
refused if the server did not accept it: there was no connection, the connection was closed before
the request was sent, or the answer was 429, 503, or UNAVAILABLE before the first event. The client
sends a refused request again after RETRY_S, and the time counts as a pause.
"""

import dataclasses
import http.client
import json
import socket
import sys
import tempfile
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))
sys.path += [str(path) for path in SOURCE.glob("build/python/lib/python3*/site-packages")]
from clients import ByGrpc, ByHand, ByOpenAI, optional, requests  # noqa: E402

RETRY_S = 0.2
BUSY = (429, 503)


@dataclasses.dataclass
class Address:
    address: str
    grpc_address: str
    secure: bool  # With TLS; the environment names the authority for both libraries.


@dataclasses.dataclass
class Counts:
    answers: int = 0
    refused: int = 0
    refusal: str = ""  # The last one.
    pause_s: float = 0.0
    lost: list = dataclasses.field(default_factory=list)
    changed: list = dataclasses.field(default_factory=list)
    clients: list = dataclasses.field(default_factory=list)  # Those that got an answer.


def causes(error: BaseException | None):
    while error is not None:
        yield error
        error = getattr(error, "reason", None) if isinstance(
            getattr(error, "reason", None), BaseException) else error.__cause__ or error.__context__


def said(error: BaseException) -> str:
    """The error and its causes, as one line."""
    return " ".join(" < ".join(f"{type(each).__name__}: {each}" for each in causes(error)).split())


def is_refused(error: Exception, events: int) -> bool:
    """True if the request was not accepted."""
    for each in causes(error):
        # BrokenPipeError: the connection was closed before the request was sent.
        if isinstance(each, (ConnectionRefusedError, BrokenPipeError, socket.gaierror)):
            return True
        if type(each).__name__ in ("ConnectError", "ConnectTimeout"):  # httpx's.
            return True
        if getattr(each, "status_code", None) in BUSY:  # openai's.
            return True
        if isinstance(each, urllib.error.HTTPError) and each.code in BUSY:
            return True
        if hasattr(each, "code") and callable(each.code) and events == 0:
            return each.code().name == "UNAVAILABLE"
    return False


class Client:
    def __init__(self, by, key: str, load: "Load"):
        self.by, self.key, self.load = by, key, load
        self.events = 0
        self.last = 0.0
        by.on_event = self.heard

    def heard(self) -> None:
        now = time.monotonic()
        self.load.pause(now - self.last)
        self.last = now
        self.events += 1

    def ask(self, number: int) -> str:
        """The answer to a request, sent again until it is accepted."""
        self.last = time.monotonic()
        self.by.waits = False
        while True:
            self.events = 0
            try:
                return self.by.ask(self.load.requests[number])
            except Exception as error:
                if not is_refused(error, self.events) or self.load.ending:
                    raise
                self.load.refuse(f"{self.key}: {said(error)}")
                self.load.pause(time.monotonic() - self.last)
                time.sleep(RETRY_S)
                self.by.waits = True


class Load:
    def __init__(self, server: Address, kinds: list, clients: int):
        self.requests = requests()
        self.lock = threading.Lock()
        self.counts = Counts()
        self.ending = False
        self.clients = []
        for number in range(clients):
            by = kinds[number % len(kinds)](server, number // len(kinds))
            self.clients.append(Client(by, f"{by.name} {by.streams}", self))

    def record(self) -> dict:
        """The undisturbed answers by kind of client; all kinds ask at once."""
        first = {each.key: each for each in reversed(self.clients)}
        with ThreadPoolExecutor(len(first)) as pool:
            answers = pool.map(lambda client: [client.ask(number) for number in
                                               range(len(self.requests))], first.values())
            return dict(zip(first, answers))

    def pause(self, seconds: float) -> None:
        with self.lock:
            self.counts.pause_s = max(self.counts.pause_s, seconds)

    def refuse(self, reason: str) -> None:
        with self.lock:
            self.counts.refused += 1
            self.counts.refusal = reason

    def run(self, first: int, client: Client, want: dict) -> None:
        number = first
        while not self.ending:
            number = (number + 1) % len(self.requests)
            lost = changed = ""
            try:
                if client.ask(number) != want[client.key][number]:
                    changed = f"{client.key}: request {number}"
            except (Exception, http.client.HTTPException) as error:
                lost = f"{client.key}: request {number}, {client.events} events: {said(error)}"
            if self.ending and lost:
                return
            with self.lock:
                self.counts.answers += not (lost or changed)
                self.counts.lost += [lost] if lost else []
                self.counts.changed += [changed] if changed else []
                if first not in self.counts.clients:
                    self.counts.clients.append(first)

    def take(self, resets: bool) -> str:
        """The counts as JSON."""
        with self.lock:
            found = json.dumps(dataclasses.asdict(self.counts))
            if resets:
                self.counts = Counts()
        return found


def main() -> int:
    address, grpc_address, answers, clients, transport = sys.argv[1:]
    file = Path(answers)
    with tempfile.TemporaryDirectory() as folder:
        kinds = [ByHand]
        kinds += [ByOpenAI] if optional("openai") is not None else []
        kinds += [ByGrpc] if ByGrpc.load(folder) else []
        load = Load(Address(address, grpc_address, transport == "tls"), kinds, int(clients))
        if not file.exists():
            file.write_text(json.dumps(load.record()))
        want = json.loads(file.read_text())
        for number, client in enumerate(load.clients):
            threading.Thread(target=load.run, args=(5 * number, client, want), daemon=True).start()
        print(json.dumps({"kinds": [kind.name for kind in kinds],
                          "streams": sum(each.by.streams for each in load.clients)}), flush=True)
        for line in sys.stdin:
            print(load.take(line.strip() == "mark"), flush=True)
        load.ending = True
        return 0


if __name__ == "__main__":
    sys.exit(main())
