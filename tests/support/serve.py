# SPDX-License-Identifier: Apache-2.0
"""`lockstep serve` on free ports, and hand-written HTTP, for tests of a whole server."""
import asyncio
import json
import os
import re
import subprocess
import threading
from pathlib import Path

PATIENCE_S = 100


class Server:
    """A `lockstep serve` process. `log` has the log lines that it prints; its addresses are read
    from them. Without `reads_log`, the log's pipe is closed as soon as the server is ready."""

    def __init__(self, lockstep: str, *arguments: str, reads_log: bool = True,
                 host: str = "127.0.0.1", workers: int = 2, **popen):
        self.process = subprocess.Popen(
            [lockstep, "serve", *arguments, "--workers", str(workers), "--grpc", "127.0.0.1:0",
             "--http", f"{host}:0"], stderr=subprocess.PIPE, text=True, **popen)
        self.address = ""  # "127.0.0.1:40001"
        self.grpc_address = ""
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"HTTP at (\S+?),", line)
            self.address = found.group(1) if found else self.address
            found = re.search(r"gRPC at (\S+?),", line)
            self.grpc_address = found.group(1) if found else self.grpc_address
            if "ready;" in line:
                break
        else:
            raise RuntimeError("lockstep serve ended: " + "".join(self.log))
        if not reads_log:
            self.process.stderr.close()
        self._reader = threading.Thread(target=self._read_log)
        self._reader.start()

    def _read_log(self) -> None:
        if not self.process.stderr.closed:
            self.log.extend(self.process.stderr)

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def memory(self) -> int:
        """The resident memory of the coordinator's process in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self) -> int:
        """Ends the process and returns its exit code."""
        self.process.terminate()
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.close() == 0, "serve ended with an error: " + "".join(self.log[-5:])


class Answer:
    """The answer to one request: status, headers with lower-case names, body."""

    def __init__(self, head: bytes, body: bytes):
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): value.strip()
                        for name, _, value in (line.partition(":") for line in lines[1:])}
        self.body = body

    def json(self):
        return json.loads(self.body)


def head_of(method: str, path: str, body: bytes) -> bytes:
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()


async def call(port: int, path: str, body=None) -> Answer:
    """GET, or POST with a body: bytes are sent as they are, anything else as JSON."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head_of("GET" if body is None else "POST", path, data) + data)
        status_and_headers = await reader.readuntil(b"\r\n\r\n")
        answer = Answer(status_and_headers[:-4], b"")
        if "content-length" in answer.headers:
            answer.body = await reader.readexactly(int(answer.headers["content-length"]))
        else:
            answer.body = b"".join([chunk async for chunk in chunks(reader)])
        return answer
    finally:
        writer.close()


async def chunks(reader: asyncio.StreamReader):
    """The pieces of a chunked body."""
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readline()


class Lost(Exception):
    """An answer that did not arrive whole."""


async def events(port: int, request: dict):
    """Opens a stream of server-sent events. Yields each line of data, and each empty line outside
    an event, which keeps an idle stream alive."""
    body = json.dumps({**request, "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head_of("POST", "/v1/completions", body) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise Lost(f"{head[:40]!r} {await reader.read(500)!r}")
        rest, ended, within = b"", False, False
        async for chunk in chunks(reader):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                ended = ended or line == b"data: [DONE]"
                if line.startswith(b"data: {") or not (line or within):
                    yield line
                within = line != b""
        if not ended:
            raise Lost("a stream ended early")
    finally:
        writer.close()


async def streamed_text(port: int, request: dict, on_line=lambda line: None) -> str:
    """The text of a streamed completion with one choice."""
    text = ""
    async for line in events(port, request):
        on_line(line)
        if not line:
            continue
        event = json.loads(line[len("data: "):])
        if "error" in event:
            raise Lost(event["error"]["message"])
        text += "".join(choice["text"] for choice in event["choices"])
    return text
