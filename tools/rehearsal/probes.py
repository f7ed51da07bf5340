# SPDX-License-Identifier: Apache-2.0
"""The kubelet's probes: how one asks, and how results count."""

import http.client
import socket
import struct
from typing import Callable

from manifests import port_number

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
SERVING = b"\x08\x01"  # HealthCheckResponse{status: SERVING}


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header as HPACK's literal without indexing."""
    return b"\x00" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionError("the connection ended")
        found += part
    return found


def grpc(address: str, port: int, service: str, timeout: float) -> bool:
    """grpc.health.v1.Health/Check in plain text, over HTTP/2 written by hand."""
    headers = b"".join(literal(name, value) for name, value in [
        (":method", "POST"), (":scheme", "http"), (":path", "/grpc.health.v1.Health/Check"),
        (":authority", f"{address}:{port}"), ("content-type", "application/grpc"),
        ("te", "trailers"), ("user-agent", "kube-probe")])
    name = service.encode()
    message = b"\x0a" + bytes([len(name)]) + name if name else b""
    body = b"\x00" + struct.pack(">I", len(message)) + message
    with socket.create_connection((address, port), timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + frame(HEADERS, 4, 1, headers) +
                           frame(DATA, 1, 1, body))
        answer = b""
        while True:
            head = receive(connection, 9)
            payload = receive(connection, int.from_bytes(head[:3], "big"))
            kind, flags = head[3], head[4]
            if kind in (SETTINGS, PING) and not flags & 1:
                connection.sendall(frame(kind, 1, 0, payload if kind == PING else b""))
            answer += payload if kind == DATA else b""
            if kind in (RESET, GOAWAY) or (kind in (DATA, HEADERS) and flags & 1):
                return answer[5:] == SERVING


def http_get(address: str, port: int, spec: dict, timeout: float) -> bool:
    """True for a status from 200 to 399; the certificate of HTTPS is not verified."""
    if spec.get("scheme", "HTTP") == "HTTPS":
        import ssl
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        connection = http.client.HTTPSConnection(address, port, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=timeout)
    headers = {each["name"]: each["value"] for each in spec.get("httpHeaders", [])}
    try:
        connection.request("GET", spec.get("path", "/"),
                           headers={"User-Agent": "kube-probe/rehearsal", **headers})
        return 200 <= connection.getresponse().status < 400
    finally:
        connection.close()


def ask(probe: dict, address: str, container: dict, execute: Callable[[list, float], bool]) -> bool:
    """The result of one probe."""
    timeout = probe.get("timeoutSeconds", 1)
    try:
        if "exec" in probe:
            return execute(probe["exec"]["command"], timeout)
        if "grpc" in probe:
            return grpc(address, probe["grpc"]["port"], probe["grpc"].get("service", ""), timeout)
        spec = probe.get("httpGet") or probe["tcpSocket"]
        port = port_number(spec["port"], [container])
        if "httpGet" in probe:
            return http_get(spec.get("host", address), port, spec, timeout)
        socket.create_connection((address, port), timeout).close()
        return True
    except (OSError, http.client.HTTPException):
        return False


class Probe:
    """The count of a probe's results: `state` is None until the first threshold is reached."""

    def __init__(self, spec: dict, began: float):
        self.spec = spec
        self.period = spec.get("periodSeconds", 10)
        self.due = began + spec.get("initialDelaySeconds", 0)
        self.state: bool | None = None
        self.last: bool | None = None
        self.run = 0

    def take(self, result: bool, now: float) -> None:
        self.due = max(self.due + self.period, now)
        self.run = self.run + 1 if result == self.last else 1
        self.last = result
        least = (self.spec.get("successThreshold", 1) if result
                 else self.spec.get("failureThreshold", 3))
        if self.run >= least:
            self.state = result
