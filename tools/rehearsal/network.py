# SPDX-License-Identifier: Apache-2.0
"""The network of a rehearsal. This process moves into a network namespace of its own, which is the
router of all nodes; every pod has a namespace, and a link to the router. All packets between pods
pass the router's rules."""

import ctypes
import os
import subprocess
from pathlib import Path

from services import DOMAIN

GATEWAY = "169.254.1.1"
SERVICES = "10.96.0.0/16"
NAME_SERVER = "10.96.0.10"
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000


def ip(*command: str, check: bool = True) -> None:
    subprocess.run(["ip", *command], check=check, capture_output=not check)


def enter() -> None:
    """Moves this process, which must have one thread, into namespaces of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{NAME_SERVER}/32", "dev", "lo")
    # Packets to services that have no endpoint reach the forward hook, which refuses them.
    ip("link", "add", "name", "services", "type", "veth", "peer", "name", "unused")
    ip("link", "set", "services", "up")
    ip("link", "set", "unused", "up")
    ip("route", "add", SERVICES, "dev", "services")


def apply(rules: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


class Sandbox:
    """The network namespace of a pod. A child process keeps it, and ends with this process."""

    def __init__(self, address: str, number: int):
        self.address = address
        self.link = f"pod{number}"
        self.process = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL)
        pid = self.process.pid
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{pid}/ns/net") == own:
            os.sched_yield()
        self.path = f"/proc/{pid}/ns/net"
        ip("link", "add", "name", self.link, "type", "veth", "peer", "name", "eth0", "netns",
           str(pid))
        ip("address", "add", f"{GATEWAY}/32", "dev", self.link)
        ip("link", "set", self.link, "up")
        ip("route", "add", f"{address}/32", "dev", self.link)
        inside = (f"ip link set lo up && ip address add {address}/32 dev eth0 && "
                  f"ip link set eth0 up && ip route add {GATEWAY} dev eth0 && "
                  f"ip route add default via {GATEWAY} src {address}")
        subprocess.run(["nsenter", f"--net={self.path}", "sh", "-c", inside], check=True)

    def cut(self) -> None:
        """Drops every packet from now on, without an error to either side."""
        ip("link", "set", self.link, "down", check=False)

    def close(self) -> None:
        ip("link", "delete", self.link, check=False)
        self.process.stdin.close()
        self.process.wait()


def resolv_conf(namespace: str) -> str:
    return (f"nameserver {NAME_SERVER}\nsearch {namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\n"
            "options ndots:5\n")
