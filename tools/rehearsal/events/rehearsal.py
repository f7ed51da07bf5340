# SPDX-License-Identifier: Apache-2.0
"""A rehearsal: the cluster, its load, and draws from the seed."""

import http.client
import json
import os
import random
import select
import ssl
import subprocess
from pathlib import Path
from typing import Callable

import network
from cluster import Cluster
from manifests import Broken, port_number

ANSWERS_S = 120
LOAD = Path(__file__).resolve().parents[1] / "load.py"


class Unplayable(Exception):
    """The overlay has nothing that the scenario could happen to."""


class Load:
    """A process of clients in a network of its own; see load.py."""

    def __init__(self, sandbox: network.Sandbox, resolv: Path, arguments: list, authority: str,
                 patience: float):
        script = (f"mount --bind {resolv} /etc/resolv.conf && exec /usr/bin/python3 {LOAD} " +
                  " ".join(str(each) for each in arguments))
        trusted = {"SSL_CERT_FILE": authority, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": authority}
        self.process = subprocess.Popen(
            ["nsenter", f"--net={sandbox.path}", "unshare", "--mount", "sh", "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **(trusted if authority else {})})
        patience = max(ANSWERS_S, patience)
        ready, _, _ = select.select([self.process.stdout], [], [], patience)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            raise Broken(f"load: must get the undisturbed answers within {patience:.0f} s, "
                         "found none; see ports, selectors and policies")
        self.clients = json.loads(line)

    def counts(self, command: str = "mark") -> dict:
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Rehearsal:
    def __init__(self, cluster: Cluster, folder: Path, clients: int, seed: int,
                 patience: float):
        self.cluster, self.folder, self.clients = cluster, folder, clients
        self.patience = patience  # The max seconds for each thing that must happen.
        self.draw = random.Random(seed)
        self.load: Load | None = None
        self.rotations = 0
        self.after: list[Callable] = []  # The steps that undo a scenario, the last one first.

    def workers(self) -> list:
        """The pods that run a worker and no server."""
        return [pod for pod in self.cluster.pods() if not pod.deleted and all(
            each.get("args", [""])[0] == "worker" for each in pod.spec["containers"])]

    def worker(self):
        found = self.workers()
        if not found:
            raise Unplayable("it has no worker pods")
        return self.draw.choice(sorted(found, key=lambda pod: pod.name))

    def slot(self, pod):
        return self.cluster.running[pod.name].kubelet.slots[0]

    def workload(self, runs: str) -> tuple:
        """The workload whose pods' first container runs `lockstep RUNS`, and the pods' template."""
        for thing in self.cluster.workloads():
            group = thing["spec"].get("leaderWorkerTemplate", {})
            template = thing["spec"].get("template") or group.get("leaderTemplate")
            if template and template["spec"]["containers"][0]["args"][0] == runs:
                return thing, template
        raise Unplayable(f"no workload runs {runs} alone")

    def recovered(self) -> float:
        return self.cluster.wait(self.cluster.all_ready, self.patience, "all pods ready")

    def undo(self) -> None:
        while self.after:
            self.after.pop()()

    # The server.

    def is_secure(self) -> bool:
        """True if the server's ports use TLS."""
        probe = self.workload("serve")[1]["spec"]["containers"][0]["readinessProbe"]
        return probe["httpGet"].get("scheme") == "HTTPS"

    def get(self, pod, path: str, body: bytes | None = None) -> tuple:
        """The status, the headers and the text of a request to a pod's HTTP port."""
        port = port_number("http", pod.spec["containers"])
        if self.is_secure():
            context = ssl._create_unverified_context()  # pylint: disable=protected-access
            connection = http.client.HTTPSConnection(pod.address, port, timeout=10, context=context)
        else:
            connection = http.client.HTTPConnection(pod.address, port, timeout=10)
        try:
            connection.request("GET" if body is None else "POST", path, body,
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    # The load.

    def clients_of(self, host: str, http_port: int, grpc_port: int, clients: int) -> Load:
        """Clients that send requests to these ports."""
        authority = str(self.folder / "public.crt") if self.is_secure() else ""
        return Load(self.cluster.client, self.folder / "clients.resolv", [
            f"{host}:{http_port}", f"{host}:{grpc_port}", self.folder / "answers.json", clients,
            "tls" if authority else "plain"], authority, self.patience)

    def clients_of_service(self, clients: int) -> Load:
        cluster = self.cluster
        name = cluster.server()
        ports = {each["name"]: each["port"]
                 for each in cluster.manifest.get("Service", name)["spec"]["ports"]}
        return self.clients_of(f"{name}.{cluster.space}.svc.{network.DOMAIN}", ports["http"],
                               ports.get("grpc", 0), clients)

    def begin_load(self, load: Load | None = None) -> None:
        """Begins this load in place of the one before, which must not have lost an answer."""
        if self.load:
            found = self.counts()
            if found["lost"] + found["changed"]:
                raise Broken(f"load: must lose no answer, found {found['lost'] + found['changed']}")
            self.load.close()
        self.load = load or self.clients_of_service(self.clients)
        self.cluster.say(f"load: {self.clients} clients, {self.load.clients['streams']} of them "
                         f"stream: {', '.join(self.load.clients['kinds'])}")

    def counts(self, command: str = "mark") -> dict:
        return self.load.counts(command)

    def everyone_answers(self) -> None:
        """Waits until each client has an answer."""
        try:
            self.cluster.wait(lambda: len(self.counts("look")["clients"]) == self.clients,
                              self.patience, "an answer to each client")
        except Broken as error:
            found = self.counts("look")
            raise Broken(f"{error}; found answers to the clients {sorted(found['clients'])}; the "
                         f"last refusal: {found['refusal']}") from error

    def end_load(self) -> None:
        if self.load:
            self.load.close()
