#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A folder whose files are read slowly, as from a slow network volume.

    slow_folder.py SOURCE MOUNT_POINT BYTES_PER_SECOND

Mounts SOURCE, a folder without subfolders, by the kernel's FUSE protocol, version 7.31
(include/uapi/linux/fuse.h). Prints a line when the mount point can be used, and, when it is
unmounted, the number of bytes that were read.
"""

import ctypes
import os
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = 27, 28, 29, 34, 36, 42
NO_ENTRY, NOT_SUPPORTED = 2, 38
ROOT = 1
HEADER = struct.Struct("<IIQQIIII")  # Length, operation, request, node, user, group, process.
SILENT = (FORGET, BATCH_FORGET, INTERRUPT)  # Operations without an answer.
DEVICE = "/dev/fuse"
CACHED_S = 3600


class SlowFiles:
    """The answers to the kernel's requests. `sleep` delays reads."""

    def __init__(self, source: Path, rate: float, sleep=time.sleep):
        self.rate, self.sleep, self.bytes = rate, sleep, 0
        self.nodes = [None, source] + sorted(each for each in source.iterdir() if each.is_file())
        self.numbers = {path.name: node for node, path in enumerate(self.nodes) if node > ROOT}

    def attributes(self, node: int) -> bytes:
        found = self.nodes[node].stat()
        kind = stat.S_IFDIR | 0o555 if node == ROOT else stat.S_IFREG | 0o444
        at = int(found.st_mtime)
        return struct.pack("<QQQQQQIIIIIIIIII", node, found.st_size, found.st_size // 512 + 1, at,
                           at, at, 0, 0, 0, kind, 1, 0, 0, 0, 4096, 0)

    def names(self, offset: int, size: int) -> bytes:
        found = b""
        for index, (name, node) in enumerate(sorted(self.numbers.items())):
            raw = name.encode()
            entry = struct.pack("<QQII", node, index + 1, len(raw), stat.S_IFREG >> 12) + raw
            entry += b"\0" * (-len(entry) % 8)
            if index < offset:
                continue
            if len(found) + len(entry) > size:
                break
            found += entry
        return found

    def read(self, node: int, offset: int, size: int) -> bytes:
        with self.nodes[node].open("rb") as file:
            found = os.pread(file.fileno(), size, offset)
        self.sleep(len(found) / self.rate)
        self.bytes += len(found)
        return found

    def answer(self, operation: int, node: int, body: bytes) -> bytes | int:
        """The body of an answer, or the number of an error."""
        if operation == INIT:
            # No flags: then the kernel reads at most 128 KiB by one request.
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 128 << 10, 0, 12, 9, 128 << 10, 1, 0, 0, 0)
        if operation == LOOKUP:
            found = self.numbers.get(body.rstrip(b"\0").decode("utf-8", "replace"))
            return NO_ENTRY if found is None else struct.pack(
                "<QQQQII", found, 0, CACHED_S, CACHED_S, 0, 0) + self.attributes(found)
        if operation == GETATTR:
            return struct.pack("<QII", CACHED_S, 0, 0) + self.attributes(node)
        if operation in (OPEN, OPENDIR):
            return struct.pack("<QII", node, 0, 0)
        if operation in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            if operation == READDIR:
                return self.names(offset, size)
            return self.read(node, offset, size)
        if operation == STATFS:
            return struct.pack("<QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        return b"" if operation in (RELEASE, RELEASEDIR, FLUSH, ACCESS) else NOT_SUPPORTED

    def serve(self, device: int) -> None:
        while True:
            try:
                request = os.read(device, 1 << 20)
            except FileNotFoundError:  # The request was interrupted.
                continue
            except OSError:  # It was unmounted.
                return
            _, operation, number, node, _, _, _, _ = HEADER.unpack_from(request)
            if operation in SILENT:
                continue
            body = self.answer(operation, node, request[HEADER.size:])
            error, body = (-body, b"") if isinstance(body, int) else (0, body)
            try:
                os.write(device, struct.pack("<IiQ", 16 + len(body), error, number) + body)
            except FileNotFoundError:  # The reader was killed.
                pass


class SlowFolder:
    """Mounts a copy of a folder in a process of its own; the caller's mount namespace has it."""

    def __init__(self, source: Path, point: Path, rate: int):
        point.mkdir(parents=True, exist_ok=True)
        self.point = point
        self.process = subprocess.Popen([sys.executable, __file__, source, point, str(rate)],
                                        stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline():
            raise OSError(f"{point}: must be mounted by FUSE, found no mount")

    def close(self) -> int:
        """Unmounts the folder, and returns the number of bytes that were read."""
        subprocess.run(["umount", "--lazy", self.point], check=False, capture_output=True)
        try:
            return int(self.process.communicate(timeout=10)[0] or 0)
        except subprocess.TimeoutExpired:  # A container still has it.
            self.process.kill()
            return 0


def main() -> int:
    source, point, rate = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    device = os.open(DEVICE, os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"slow", point.encode(), b"fuse", 7, options.encode()) != 0:  # ro,nosuid,nodev
        print(f"slow_folder: {point}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 2
    files = SlowFiles(source, rate)
    print("mounted", flush=True)
    files.serve(device)
    print(files.bytes, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
