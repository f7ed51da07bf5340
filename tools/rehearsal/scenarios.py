# SPDX-License-Identifier: Apache-2.0
"""Events that a cluster must survive, as one table. A scenario causes a fault under load and
returns when the manifests promise that everything is as before."""

import copy
import dataclasses
import json
import random
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable

import network
from cluster import NODE_MONITOR_S, Cluster
from manifests import Broken

ANSWERS_S = 60
RESTARTED = "kubectl.kubernetes.io/restartedAt"
DRAIN_RETRY_S = 5.0  # kubectl drain repeats a refused eviction after this time.


class Unplayable(Exception):
    """The overlay has nothing that the scenario could happen to."""


class Rehearsal:
    """The cluster, its load, and draws from the seed."""

    def __init__(self, cluster: Cluster, folder: Path, clients: int, seed: int,
                 patience: float):
        self.cluster, self.folder, self.clients = cluster, folder, clients
        self.patience = patience  # The max seconds for each thing that must happen.
        self.draw = random.Random(seed)
        self.load: subprocess.Popen | None = None
        self.rotations = 0

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

    def workload(self, runs: str) -> dict:
        for thing in self.cluster.workloads():
            if "template" in thing["spec"] and thing["spec"]["template"]["spec"]["containers"][0][
                    "args"][0] == runs:
                return thing
        raise Unplayable(f"no workload runs {runs} alone")

    def recovered(self) -> float:
        return self.cluster.wait(self.cluster.all_ready, self.patience, "all pods ready")

    # The load.

    def begin_load(self) -> None:
        cluster = self.cluster
        host = f"{cluster.server()}.{cluster.space}.svc.{network.DOMAIN}"
        ports = {each["name"]: each["port"]
                 for each in cluster.manifest.get("Service", cluster.server())["spec"]["ports"]}
        script = (f"mount --bind {self.folder}/clients.resolv /etc/resolv.conf && exec "
                  f"/usr/bin/python3 {Path(__file__).with_name('load.py')} {host}:{ports['http']} "
                  f"{host}:{ports.get('grpc', 0)} {self.folder}/answers.json {self.clients}")
        self.load = subprocess.Popen(
            ["nsenter", f"--net={cluster.client.path}", "unshare", "--mount", "sh", "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready, _, _ = select.select([self.load.stdout], [], [], ANSWERS_S)
        line = self.load.stdout.readline() if ready else ""
        if not line:
            self.load.kill()
            raise Broken(f"load: must get the undisturbed answers within {ANSWERS_S} s, found "
                         "none; see ports, selectors and policies")
        cluster.say(f"load: {self.clients} clients: {', '.join(json.loads(line)['kinds'])}")

    def counts(self, command: str = "mark") -> dict:
        self.load.stdin.write(command + "\n")
        self.load.stdin.flush()
        return json.loads(self.load.stdout.readline())

    def everyone_answered(self) -> bool:
        return len(self.counts("look")["clients"]) == self.clients

    def end_load(self) -> None:
        if self.load:
            self.load.stdin.close()
            self.load.wait()


def restart(rehearsal: Rehearsal, thing: dict) -> None:
    """kubectl rollout restart."""
    cluster = rehearsal.cluster
    with cluster.lock:
        template = thing["spec"]["template"]
        cluster.before[thing["metadata"]["name"]] = copy.deepcopy(template)
        template["metadata"].setdefault("annotations", {})[RESTARTED] = str(time.time())


def undisturbed(rehearsal: Rehearsal) -> None:
    time.sleep(3)


def kill(rehearsal: Rehearsal) -> None:
    if not rehearsal.workers():
        kill_process(rehearsal)
        return
    pod = rehearsal.worker()
    restarts = pod.restarts
    rehearsal.slot(pod).run.signal(signal.SIGKILL)
    rehearsal.cluster.wait(lambda: pod.restarts > restarts, 30, f"a restart of {pod.name}")


def kill_process(rehearsal: Rehearsal) -> None:
    """kill -9 of a worker that the server started in its own container."""
    pod = rehearsal.cluster.serving()[0]
    pid = rehearsal.slot(pod).run.pid
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True,
                           text=True, check=True).stdout.split()
    subprocess.run(["kill", "-9", rehearsal.draw.choice(found)], check=True)
    time.sleep(2)


def kill_server(rehearsal: Rehearsal) -> None:
    pod = rehearsal.cluster.serving()[0]
    restarts = pod.restarts
    rehearsal.slot(pod).run.signal(signal.SIGKILL)
    rehearsal.cluster.wait(lambda: pod.restarts > restarts, 30, "a restart of the server")


def delete(rehearsal: Rehearsal) -> None:
    pod = rehearsal.worker()
    rehearsal.cluster.delete(pod)
    rehearsal.cluster.wait(lambda: pod.gone, pod.grace + 10, f"the end of {pod.name}")


def node_gone(rehearsal: Rehearsal) -> None:
    cluster = rehearsal.cluster
    servers = {pod.node for pod in cluster.serving()}
    names = sorted({pod.node for pod in rehearsal.workers()} - servers)
    if not names:
        raise Unplayable("no node has workers and no server")
    name = rehearsal.draw.choice(names)
    node = next(each for each in cluster.nodes if each.name == name)
    cluster.lose_node(node)
    time.sleep(NODE_MONITOR_S)
    cluster.node_not_ready(node)
    cluster.remove_node(node)
    rehearsal.recovered()
    node.alive = True  # Another machine with the same name.


def drain(rehearsal: Rehearsal) -> None:
    """Drains two nodes at once: budgets let one worker go after the other."""
    cluster = rehearsal.cluster
    servers = {pod.node for pod in cluster.serving()}
    names = sorted({pod.node for pod in rehearsal.workers()} - servers)
    if not names:
        raise Unplayable("no node has workers and no server")
    nodes = [each for each in cluster.nodes if each.name in names[:2]]
    if len(nodes) == len(cluster.nodes):
        nodes = nodes[:1]
    for node in nodes:
        node.cordoned = True
    left = [pod for pod in cluster.pods() if pod.node in [node.name for node in nodes]]
    refused, deadline = 0, time.monotonic() + rehearsal.patience
    while left:
        if time.monotonic() > deadline:
            raise Broken(f"drain: must evict {left[0].name}, found it refused; see its budget")
        kept = [pod for pod in left if not pod.gone and not cluster.evict(pod)]
        refused += len(kept)
        left = kept
        time.sleep(DRAIN_RETRY_S if left else 0)
    rehearsal.recovered()
    for node in nodes:
        node.cordoned = False
    cluster.say(f"drain: {refused} evictions were refused for a time")
    if len(nodes) > 1 and refused == 0:
        raise Broken("drain: a budget must refuse the second of two evictions at once, found none")


def roll_workers(rehearsal: Rehearsal) -> None:
    restart(rehearsal, rehearsal.workload("worker"))


def roll_server(rehearsal: Rehearsal) -> None:
    restart(rehearsal, rehearsal.workload("serve"))


def wrong_token(rehearsal: Rehearsal) -> None:
    """A stranger has a worker's labels and the token of another cluster: it must not become
    ready."""
    cluster, name = rehearsal.cluster, "stranger-0"
    made = copy.deepcopy(rehearsal.worker().object)
    made["metadata"].update(name=name, owner=("Pod", name))
    made["spec"]["hostname"] = name
    variables = made["spec"]["containers"][0]["env"]
    if not any(each["name"] == "LOCKSTEP_JOIN_TOKEN" for each in variables):
        raise Unplayable("workers have no token")
    variables[:] = [each for each in variables if each["name"] != "LOCKSTEP_JOIN_TOKEN"]
    variables.append({"name": "LOCKSTEP_JOIN_TOKEN", "value": "the token of another cluster"})
    with cluster.lock:
        cluster.create(made)
    pod = cluster.running[name].pod
    deadline, ready = time.monotonic() + 15, False
    while time.monotonic() < deadline:
        ready = ready or pod.ready
        time.sleep(0.1)
    cluster.delete(pod)
    cluster.wait(lambda: pod.gone, pod.grace + 10, "the end of the stranger")
    if ready:
        raise Broken("wrong token: the worker must not become ready, found it ready")


def policy(rehearsal: Rehearsal) -> None:
    """Policies leave out one worker for a time: it reaches no other pod, and none reaches it."""
    cluster, pod = rehearsal.cluster, rehearsal.worker()
    found = cluster.manifest.of_kind("NetworkPolicy")
    if not found:
        raise Unplayable("it has no policies")
    before = copy.deepcopy(found)
    own = {"key": "statefulset.kubernetes.io/pod-name", "operator": "NotIn", "values": [pod.name]}
    with cluster.lock:
        for each in found:
            selectors = [each["spec"]["podSelector"]] if each["spec"]["podSelector"] else []
            for side, direction in (("from", "ingress"), ("to", "egress")):
                selectors += [by["podSelector"] for rule in each["spec"].get(direction, [])
                              for by in rule.get(side, []) if "podSelector" in by]
            for selector in selectors:
                selector["matchExpressions"] = selector.get("matchExpressions", []) + [own]
    time.sleep(15)
    with cluster.lock:
        for each, old in zip(found, before):
            each["spec"] = old["spec"]


def out_of_memory(rehearsal: Rehearsal) -> None:
    """Another process in a worker's container takes all memory up to the limit; the kernel is made
    to choose the worker."""
    pod = rehearsal.worker()
    slot, restarts = rehearsal.slot(pod), pod.restarts
    Path(f"/proc/{slot.run.pid}/oom_score_adj").write_text("1000")
    rehearsal.cluster.probers.submit(slot.run.execute, ["sh", "-c", "head -c 8G /dev/zero | tail"])
    rehearsal.cluster.wait(lambda: pod.restarts > restarts, 60, f"a restart of {pod.name}")
    if "OOM" not in slot.last:
        raise Broken(f"out of memory: the kernel must end {pod.name}, found {slot.last}")


def full_disk(rehearsal: Rehearsal) -> None:
    """Every writable folder of every pod is full for a time."""
    filled = []
    for pod in rehearsal.cluster.pods():
        run = rehearsal.slot(pod).run
        for mount in pod.spec["containers"][0].get("volumeMounts", []):
            if not mount.get("readOnly"):
                file = f"{mount['mountPath']}/full"
                run.execute(["sh", "-c", f"head -c 64M /dev/zero >{file}"])
                filled.append((run, file))
    kill(rehearsal)
    rehearsal.recovered()
    for run, file in filled:
        run.execute(["rm", "-f", file])


def rotate(rehearsal: Rehearsal) -> None:
    """A new join token in the secret, then kubectl rollout restart of the server. Workers that it
    refuses end, and the kubelet starts them again with the new token."""
    cluster = rehearsal.cluster
    secrets = [each for each in cluster.manifest.of_kind("Secret")
               if "token" in {**each.get("data", {}), **each.get("stringData", {})}]
    if not secrets:
        raise Unplayable("it has no secret with a token")
    rehearsal.rotations += 1
    for each in secrets:
        each["stringData"] = {**each.get("stringData", {}),
                              "token": f"another token, number {rehearsal.rotations}"}
        each.get("data", {}).pop("token", None)
    restart(rehearsal, rehearsal.workload("serve"))


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    help: str
    play: Callable[[Rehearsal], None]
    loses: bool = False  # Its requests may be lost: the server's process is killed.
    refuses: bool = False  # New requests may be refused: the server's pod is replaced.


SCENARIOS = [
    Scenario("start", "pods start in an order that is drawn", undisturbed),
    Scenario("kill", "kill -9 of a worker", kill),
    Scenario("kill-server", "kill -9 of the server: its requests are lost, by design", kill_server,
             loses=True, refuses=True),
    Scenario("delete", "a worker's pod is deleted", delete),
    Scenario("node-gone", "a node with workers stops, and is removed", node_gone),
    Scenario("drain", "two nodes with workers are drained at once", drain),
    Scenario("roll-workers", "rollout restart of the workers", roll_workers),
    Scenario("roll-server", "rollout restart of the server", roll_server, refuses=True),
    Scenario("wrong-token", "a worker with another token", wrong_token),
    Scenario("policy", "policies cut off a worker for 15 s", policy),
    Scenario("oom", "a worker reaches its memory limit", out_of_memory),
    Scenario("full-disk", "all writable folders are full, and a worker is killed", full_disk),
    Scenario("rotate", "the join token is rotated", rotate, refuses=True),
]
