# SPDX-License-Identifier: Apache-2.0
"""HAProxy in front of the servers, with the configuration of deploy/k8s/components/haproxy."""

import csv
import os
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import yaml
from cluster import Cluster
from manifests import Broken

COMPONENT = Path(__file__).resolve().parents[3] / "deploy/k8s/components/haproxy"
PROGRAM = shutil.which("haproxy") or "/usr/sbin/haproxy"
HTTP_PORT, GRPC_PORT = 8000, 50051
ADDRESS = "10.76.0.2"


class Proxy:
    """Runs HAProxy in a network of its own, outside the manifest's namespace."""

    def __init__(self, cluster: Cluster, folder: Path):
        self.cluster = cluster
        self.commands = folder / "haproxy.socket"
        self.sandbox = cluster.outside("proxy", ADDRESS)
        extra = folder / "haproxy.cfg"
        extra.write_text(f"global\n  stats socket {self.commands} mode 600\n")
        with cluster.lock:
            for service in yaml.safe_load_all((COMPONENT / "service.yaml").read_text()):
                if service not in cluster.services:
                    cluster.manifest.add(service)
                    cluster.services.append(service)
        command = [PROGRAM, "-db", "-f", str(COMPONENT / "haproxy.cfg"), "-f", str(extra)]
        script = (f"mount --bind {folder}/clients.resolv /etc/resolv.conf && exec "
                  f"{shlex.join(command)}")
        self.log = (folder / "haproxy.log").open("w")
        self.process = subprocess.Popen(
            ["nsenter", f"--net={self.sandbox.path}", "unshare", "--mount", "sh", "-c", script],
            stdout=self.log, stderr=self.log)

    def table(self) -> list:
        """The rows of `show stat`."""
        if self.process.poll() is not None:
            raise Broken(f"haproxy: must run, found exit code {self.process.returncode}; see "
                         f"{self.log.name}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(os.fspath(self.commands))
            connection.sendall(b"show stat\n")
            text = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        return list(csv.DictReader(text.lstrip("# ").splitlines()))

    def up(self) -> int:
        """The number of servers that get requests, in the backend with the fewest of them."""
        try:
            rows = self.table()
        except (FileNotFoundError, ConnectionRefusedError):
            return 0
        backends = {row["pxname"] for row in rows if row["svname"] == "BACKEND"}
        return min((sum(row["pxname"] == name and row["svname"] not in ("BACKEND", "FRONTEND") and
                        row["status"].startswith("UP") for row in rows) for name in backends),
                   default=0)

    def repeated(self) -> int:
        """The number of requests that were sent again, to the same server or another."""
        return sum(int(row[key] or 0) for row in self.table() if row["svname"] == "BACKEND"
                   for key in ("wretr", "wredis"))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.log.close()
        self.cluster.leave("proxy")
