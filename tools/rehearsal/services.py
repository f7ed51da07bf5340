# SPDX-License-Identifier: Apache-2.0
"""Services: their endpoints, their addresses as rules of nftables, and their names."""

import socket
import struct
import threading
from typing import Callable

from manifests import Broken, port_number

DOMAIN = "cluster.local"
TYPE_A, TYPE_AAAA = 1, 28


def endpoints(service: dict, pods: list) -> list:
    """The pods that receive the service's connections. A terminating pod receives connections only
    if it is still ready and no other pod is."""
    selector = service["spec"].get("selector") or {}
    mine = [pod for pod in pods if pod.address and selector and
            all(pod.labels.get(key) == value for key, value in selector.items())]
    if service["spec"].get("publishNotReadyAddresses"):
        return mine
    ready = [pod for pod in mine if pod.ready]
    return [pod for pod in ready if not pod.deleted] or ready


def is_headless(service: dict) -> bool:
    return service["spec"].get("clusterIP") == "None"


def rules(services: list, pods: list, addresses: dict) -> str:
    """A table of nftables that sends each service's address to its endpoints."""
    sends, refuses = [], []
    for service in services:
        if is_headless(service):
            continue
        name = service["metadata"]["name"]
        for port in service["spec"]["ports"]:
            to = []
            for pod in endpoints(service, pods):
                try:
                    number = port_number(port.get("targetPort", port["port"]),
                                         pod.spec["containers"])
                    to.append(f"{pod.address} . {number}")
                except Broken:
                    pass  # Kubernetes leaves such a pod out.
            match = f"ip daddr {addresses[name]} tcp dport {port['port']}"
            if to:
                choices = ", ".join(f"{index} : {each}" for index, each in enumerate(to))
                sends.append(f"{match} dnat ip to numgen random mod {len(to)} map {{ {choices} }}")
            else:
                refuses.append(f"{match} reject with tcp reset")
    hooks = [f" chain {hook} {{\n  type nat hook {hook} priority -100;\n  " + "\n  ".join(sends) +
             "\n }" for hook in ("prerouting", "output")]
    hooks += [f" chain {name} {{\n  type filter hook {hook} priority -10;\n  " +
              "\n  ".join(refuses) + "\n }"
              for name, hook in (("refuse", "forward"), ("refuse_node", "output"))]
    return ("table ip services\ndelete table ip services\ntable ip services {\n" +
            "\n".join(hooks) + "\n}\n")


def names(services: list, pods: list, addresses: dict, namespace: str) -> dict:
    """The addresses of each name."""
    found = {}
    for service in services:
        name = f"{service['metadata']['name']}.{namespace}.svc.{DOMAIN}"
        if not is_headless(service):
            found[name] = [addresses[service["metadata"]["name"]]]
            continue
        mine = endpoints(service, pods)
        if not service["spec"].get("publishNotReadyAddresses"):
            mine = [pod for pod in mine if not pod.deleted]
        found[name] = [pod.address for pod in mine]
        for pod in mine:
            if pod.spec.get("subdomain") == service["metadata"]["name"]:
                found[f"{pod.spec['hostname']}.{name}"] = [pod.address]
    return found


def answer(query: bytes, known: dict) -> bytes:
    """The name server's answer to a query with one question."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("ascii", "replace"))
        at += 1 + query[at]
    name, kind = ".".join(labels).lower(), struct.unpack(">H", query[at + 1:at + 3])[0]
    found = known.get(name)
    records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", TYPE_A, 1, 5, 4) + socket.inet_aton(each)
                       for each in found or []) if kind == TYPE_A else b""
    code = 0 if found is not None else 3
    count = len(found) if found and kind == TYPE_A else 0
    return (query[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, count, 0, 0) +
            query[12:at + 5] + records)


class NameServer:
    """A name server at UDP port 53 of the address; `known` returns all names."""

    def __init__(self, address: str, known: Callable[[], dict]):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        self.known = known
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                query, sender = self.socket.recvfrom(512)
                self.socket.sendto(answer(query, self.known()), sender)
            except (OSError, IndexError, struct.error):
                if self.socket.fileno() < 0:
                    return
