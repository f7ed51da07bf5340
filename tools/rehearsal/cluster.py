# SPDX-License-Identifier: Apache-2.0
"""A cluster: objects, nodes, pods, and the loop that plays the controllers."""

import copy
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

import network
import policies
import probes
import services
import sets
import volumes
from containers import Container, podman, remove_all, resources, security
from manifests import Broken, Manifest, downward, expanded
from pods import Kubelet, Pod

POLL_S = 0.05
NODE_MONITOR_S = 50.0  # Seconds until the controller of nodes finds that a node does not answer.
MAX_DELAY_S = 6.0
SYNC_S = 10.0  # The kubelet's period for files of ConfigMaps and Secrets; its default is 60.
KINDS = ("Deployment", "StatefulSet", "LeaderWorkerSet")
CLIENTS = {"kubernetes.io/metadata.name": "clients", "lockstep-clients": "true"}


class Node:
    def __init__(self, index: int):
        self.name = f"node{index + 1}"
        self.index = index
        self.alive = True  # The machine runs.
        self.cordoned = False


class Running:
    """A pod with its kubelet, its network and its folder."""

    def __init__(self, pod: Pod, sandbox: network.Sandbox, folder: Path):
        self.pod, self.sandbox, self.folder = pod, sandbox, folder
        self.kubelet: Kubelet | None = None
        self.volumes = volumes.Volumes(pod, folder)
        self.thread: threading.Thread | None = None


class Cluster:
    def __init__(self, manifest: Manifest, folder: Path, nodes: int, images: dict, say):
        self.manifest, self.folder, self.images, self.say = manifest, folder, images, say
        self.nodes = [Node(index) for index in range(nodes)]
        self.lock = threading.RLock()
        self.running: dict[str, Running] = {}
        self.serial = 0
        self.hosts = 0
        self.written: dict[str, str] = {}
        self.known: dict = {}
        self.failed = ""
        self.ending = False
        self.delays = lambda: 0.0  # Seconds before a pod's kubelet begins.
        self.before: dict[str, dict] = {}
        self.options_of: Callable[[Pod], list] = lambda pod: []  # More options for podman.
        self.probers = ThreadPoolExecutor(32)
        self.space = manifest.namespace
        for thing in manifest.of_kind("LeaderWorkerSet"):
            manifest.add({"kind": "Service", "metadata": thing["metadata"], "spec": {
                "clusterIP": "None", "publishNotReadyAddresses": True, "ports": [],
                "selector": {f"{sets.LWS}/name": thing["metadata"]["name"]}}})
        self.services = manifest.of_kind("Service")
        self.addresses = {each["metadata"]["name"]: f"10.96.1.{index + 1}"
                          for index, each in enumerate(self.services)}
        self.client = network.Sandbox("10.76.0.1", 0)
        self.strangers = {"client": self.client}  # Networks outside the manifest's namespace.
        self.resolv(folder / "clients.resolv", "clients")
        services.NameServer(network.NAME_SERVER, lambda: self.known)
        self.loop = threading.Thread(target=self.control, daemon=True)

    def resolv(self, path: Path, space: str) -> Path:
        path.write_text(network.resolv_conf(space))
        return path

    # Controllers.

    def pods(self) -> list:
        return [each.pod for each in list(self.running.values())]

    def of(self, kind: str, name: str) -> list:
        return [pod for pod in self.pods() if pod.owner == (kind, name)]

    def workloads(self) -> list:
        return [each for kind in KINDS for each in self.manifest.of_kind(kind)]

    def control(self) -> None:
        try:
            while not self.ending:
                with self.lock:
                    self.control_once()
                time.sleep(POLL_S)
        except Exception as error:  # Any fault, also of a manifest, ends the rehearsal.
            self.failed = f"{type(error).__name__}: {error}"
            self.say(f"the controllers failed: {self.failed}")

    def control_once(self) -> None:
        for name, each in list(self.running.items()):
            if each.pod.gone:
                self.running.pop(name)
                self.connect()  # Removes the pod's rules before its network ends.
                self.forget(each)
        for thing in self.workloads():
            kind, name = thing["kind"], thing["metadata"]["name"]
            mine = self.of(kind, name)
            if kind == "Deployment":
                actions = sets.deployment(thing, mine, self.serial)
            elif kind == "StatefulSet":
                actions = sets.stateful_set(thing, mine, self.before.get(name))
            else:
                actions = sets.leader_worker_set(thing, mine)
            for pod in actions.delete:
                self.delete(pod)
            for made in actions.create:
                self.create(made)
        self.connect()

    def connect(self) -> None:
        """Brings endpoints, names and policies up to date."""
        live = [each.pod for each in self.running.values()]
        labels = self.manifest.namespace_labels()
        peers = [policies.Peer(pod.name, self.space, pod.labels, pod.address, labels,
                               pod.spec["containers"]) for pod in live]
        peers += [policies.Peer(name, "clients", {}, each.address, CLIENTS)
                  for name, each in self.strangers.items()]
        peers.append(policies.Peer("dns", "kube-system", {"k8s-app": "kube-dns"},
                                   network.NAME_SERVER,
                                   {"kubernetes.io/metadata.name": "kube-system"}))
        self.known = services.names(self.services, live, self.addresses, self.space)
        for name, rules in (
                ("services", services.rules(self.services, live, self.addresses)),
                ("policies", policies.ruleset(self.manifest.of_kind("NetworkPolicy"), peers))):
            if self.written.get(name) != rules:
                network.apply(rules)
                self.written[name] = rules

    # Pods.

    def place(self, labels: dict) -> Node:
        """The node with the fewest pods of these labels, then with the fewest pods."""
        able = [node for node in self.nodes if node.alive and not node.cordoned]
        if not able:
            raise Broken("nodes: must be one that is not cordoned, found none")
        on = [(node, [pod for pod in self.pods() if pod.node == node.name]) for node in able]
        component = labels.get("app.kubernetes.io/component")
        return min(on, key=lambda each: (
            sum(pod.labels.get("app.kubernetes.io/component") == component for pod in each[1]),
            len(each[1])))[0]

    def create(self, made: dict) -> None:
        try:
            node = self.place(made["metadata"].get("labels", {}))
        except Broken:
            return  # The pod is pending.
        self.serial += 1
        self.hosts += 1
        pod = Pod(made, node.name, f"10.77.{node.index + 1}.{self.hosts % 250 + 2}")
        folder = self.folder / "pods" / f"{pod.name}-{self.serial}"
        folder.mkdir(parents=True)
        each = Running(pod, network.Sandbox(pod.address, self.hosts), folder)
        self.running[pod.name] = each
        self.say(f"{pod.name}: on {node.name} at {pod.address}")
        each.kubelet = Kubelet(pod, lambda spec, count: self.start(each, spec, count),
                               lambda *asked: self.ask(each, *asked),
                               lambda *hook: self.hook(each, *hook), self.say)
        each.thread = threading.Thread(target=self.run_kubelet, args=(each, node), daemon=True)
        each.thread.start()

    def run_kubelet(self, each: Running, node: Node) -> None:
        try:
            time.sleep(self.delays())
            synced = time.monotonic()
            while not each.pod.gone and not self.ending:
                if not node.alive:
                    return
                each.kubelet.step(time.monotonic())
                if time.monotonic() - synced > SYNC_S:
                    each.volumes.sync(self.manifest)
                    synced = time.monotonic()
                time.sleep(POLL_S)
        except Exception as error:
            self.failed = f"{each.pod.name}: {type(error).__name__}: {error}"
            self.say(f"the kubelet failed: {self.failed}")

    def ask(self, each: Running, probe, slot, take) -> None:
        run, spec = slot.run, slot.spec

        def asked() -> None:
            try:
                result = probes.ask(probe.spec, each.pod.address, spec, run.execute)
            except Broken as error:
                self.say(f"{each.pod.name}: {error}")
                result = False
            take(result, time.monotonic())
        self.probers.submit(asked)

    def hook(self, each: Running, slot, handler: dict, done) -> None:
        run, limit = slot.run, each.pod.grace

        def hooked() -> None:
            if "sleep" in handler:
                time.sleep(min(limit, handler["sleep"]["seconds"]))
                slot.is_hook_cut = limit < handler["sleep"]["seconds"]
            elif "exec" in handler:
                slot.is_hook_cut = not run.execute(handler["exec"]["command"], limit)
            else:
                probes.ask({**handler, "timeoutSeconds": limit}, each.pod.address, slot.spec,
                           run.execute)
            done(time.monotonic())
        threading.Thread(target=hooked, daemon=True).start()

    def start(self, each: Running, spec: dict, count: int) -> Container:
        pod = each.pod
        fields = downward(pod.object, pod.address, pod.node, network.GATEWAY)
        variables = self.manifest.environment(spec, fields)
        options = [f"--network=ns:{each.sandbox.path}",
                   f"--hostname={pod.spec.get('hostname', pod.name)}", "--no-hosts",
                   *security(pod.spec, spec),
                   *resources(spec)]
        options += [f"--env={key}={value}" for key, value in variables.items()]
        resolv = self.resolv(each.folder / "resolv.conf", self.space)
        options.append(f"--volume={resolv}:/etc/resolv.conf:ro")
        options += each.volumes.options(self.manifest, spec) + self.options_of(pod)
        command, arguments = ([expanded(str(each), variables) for each in spec.get(field, [])]
                              for field in ("command", "args"))
        if command:
            options.append(f"--entrypoint={command[0]}")
        image = self.images.get(spec["image"], spec["image"])
        return Container(f"{pod.name}-{pod.uid[:8]}-{spec['name']}-{count}", options, image,
                         command[1:] + arguments,
                         each.folder / f"{spec['name']}-{count}.log")

    # Events.

    def delete(self, pod: Pod, grace: float | None = None) -> None:
        if not pod.deleted:
            pod.grace = pod.grace if grace is None else grace
            pod.deleted = True
            self.say(f"{pod.name}: deleted")

    def keep_templates(self) -> None:
        """From now on, a StatefulSet's pods below its partition keep the current template."""
        self.before = {each["metadata"]["name"]: copy.deepcopy(each["spec"]["template"])
                       for each in self.manifest.of_kind("StatefulSet")}

    def outside(self, name: str, address: str) -> network.Sandbox:
        """Another network in the clients' namespace."""
        with self.lock:
            self.hosts += 1
            self.strangers[name] = network.Sandbox(address, self.hosts)
            self.connect()
            return self.strangers[name]

    def leave(self, name: str) -> None:
        with self.lock:
            left = self.strangers.pop(name)
            self.connect()
            left.close()

    def forget(self, each: Running) -> None:
        each.sandbox.close()
        each.volumes.close()
        name = f"{each.pod.name}-{each.pod.uid[:8]}"
        found = podman("ps", "-aq", "--filter", f"name={name}", check=False)
        threading.Thread(target=lambda: podman("rm", "-f", "-t", "0", *found.split(), check=False),
                         daemon=True).start()

    def evict(self, pod: Pod) -> bool:
        """The API server's answer to an eviction: False if a budget refuses it now."""
        with self.lock:
            expected = sum(each["spec"].get("replicas", 1) for each in self.workloads()
                           if (each["kind"], each["metadata"]["name"]) == pod.owner)
            allowed = sets.may_evict(
                pod, self.pods(), self.manifest.of_kind("PodDisruptionBudget"), expected)
            if allowed:
                self.delete(pod)
            return allowed

    def lose_node(self, node: Node) -> None:
        """The machine stops at once: no packet leaves it, and its containers are gone."""
        node.alive = False
        with self.lock:
            for each in list(self.running.values()):
                if each.pod.node == node.name:
                    each.sandbox.cut()
                    for slot in each.kubelet.first + each.kubelet.slots:
                        if slot.run:
                            slot.run.signal(9)
        self.say(f"{node.name}: gone")

    def node_not_ready(self, node: Node) -> None:
        """The controller of nodes: pods that do not answer are not ready."""
        with self.lock:
            for pod in self.pods():
                if pod.node == node.name:
                    pod.ready = False

    def remove_node(self, node: Node) -> None:
        """The cloud's controller deletes the node, and its pods with it."""
        with self.lock:
            for pod in self.pods():
                if pod.node == node.name:
                    pod.deleted, pod.ready, pod.gone = True, False, True
        self.say(f"{node.name}: deleted")

    def wait(self, ready, seconds: float, what: str) -> float:
        """Waits until ready() is true, and returns the seconds; Broken if the time is over."""
        begin = time.monotonic()
        while not ready():
            if self.failed:
                raise Broken(self.failed)
            if time.monotonic() - begin > seconds:
                problems = [pod.problem for pod in self.pods() if pod.problem]
                raise Broken(f"{what}: must happen within {seconds:.0f} s, found "
                             f"{self.state()}" + "".join(f"; {each}" for each in problems))
            time.sleep(POLL_S)
        return time.monotonic() - begin

    def state(self) -> str:
        return ", ".join(f"{pod.name} {pod.state()}" for pod in self.pods()) or "no pods"

    def all_ready(self) -> bool:
        """True if every workload has its replicas, all ready and of the newest template."""
        for thing in self.workloads():
            spec = thing["spec"]
            size = spec.get("leaderWorkerTemplate", {}).get("size", 1)
            newest = sets.revision(spec.get("leaderWorkerTemplate") or spec["template"])
            mine = self.of(thing["kind"], thing["metadata"]["name"])
            if len(mine) != spec.get("replicas", 1) * size or not all(
                    pod.ready and not pod.deleted and pod.revision == newest for pod in mine):
                return False
        return True

    def server(self) -> str:
        """The name of the service with the port http."""
        for service in self.services:
            if any(port.get("name") == "http" for port in service["spec"]["ports"]):
                return service["metadata"]["name"]
        raise Broken("Service: must be one with a port named http, found none")

    def serving(self) -> list:
        """The pods that clients reach."""
        found = self.manifest.get("Service", self.server())
        return services.endpoints(found, self.pods())

    def draw_delays(self, draw: random.Random) -> None:
        """From now on, each pod's kubelet begins after a random delay."""
        self.delays = lambda: draw.uniform(0, MAX_DELAY_S)

    def begin(self) -> None:
        self.loop.start()

    def close(self) -> None:
        self.ending = True
        self.loop.join()
        for each in self.running.values():
            each.thread.join(5)
        remove_all(own=True)
        for each in self.running.values():
            each.sandbox.close()
        self.client.close()
