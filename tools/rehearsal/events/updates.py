# SPDX-License-Identifier: Apache-2.0
"""Events that an operator causes: drains, updates, and new secrets."""

import ssl
import threading
import time

from cluster import SYNC_S
from events.certificates import Issuer
from events.rehearsal import Rehearsal, Unplayable
from manifests import Broken, port_number

RESTARTED = "kubectl.kubernetes.io/restartedAt"
DRAIN_RETRY_S = 5.0  # kubectl drain repeats a refused eviction after this time.
MAX_NOT_READY_S = 1.0  # From SIGTERM until /readyz says so.


def restart(rehearsal: Rehearsal, template: dict) -> None:
    """kubectl rollout restart."""
    cluster = rehearsal.cluster
    with cluster.lock:
        cluster.keep_templates()
        template["metadata"].setdefault("annotations", {})[RESTARTED] = str(time.time())


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
    restart(rehearsal, rehearsal.workload("worker")[1])


class Ending:
    """Watches a server's pod from now until it is gone: SIGTERM must make /readyz fail at once, new
    requests must get 503 with Retry-After, and the process must end by itself."""

    REQUEST = b'{"model": "demo", "prompt": "Once", "max_tokens": 1}'

    def __init__(self, rehearsal: Rehearsal, pod):
        self.rehearsal, self.pod, self.slot = rehearsal, pod, rehearsal.slot(pod)
        self.not_ready_s: float | None = None
        self.retry_after = ""
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self) -> None:
        while not self.pod.gone and not self.retry_after:
            try:
                status, _, _ = self.rehearsal.get(self.pod, "/readyz")
                at = time.monotonic()
                if status == 503 and self.slot.terminated_at is not None:
                    if self.not_ready_s is None:
                        self.not_ready_s = at - self.slot.terminated_at
                    status, headers, _ = self.rehearsal.get(self.pod, "/v1/completions",
                                                            self.REQUEST)
                    self.retry_after = headers.get("Retry-After", "") if status == 503 else ""
            except OSError:
                pass
            time.sleep(0.005)

    def verify(self) -> None:
        # With a surge the pod is deleted only when another one is ready.
        self.rehearsal.cluster.wait(lambda: self.pod.gone,
                                    self.pod.grace + self.rehearsal.patience,
                                    f"the end of {self.pod.name}")
        self.thread.join()
        if self.slot.is_hook_cut:
            raise Broken(f"{self.pod.name}: preStop must end within the grace of "
                         f"{self.pod.grace} s, found it cut off")
        if self.slot.last != "exit code 0":
            raise Broken(f"{self.pod.name}: must end with exit code 0, found {self.slot.last}")
        if self.not_ready_s is None:  # No request was running, so it ended at once.
            return
        self.rehearsal.cluster.say(
            f"{self.pod.name}: not ready {self.not_ready_s * 1000:.0f} ms after SIGTERM, "
            f"Retry-After {self.retry_after or 'not seen'}, ended "
            f"{self.slot.ended_at - self.slot.terminated_at:.1f} s after SIGTERM")
        if self.not_ready_s > MAX_NOT_READY_S:
            raise Broken(f"{self.pod.name}: must be not ready at once after SIGTERM, found it so "
                         f"after {self.not_ready_s:.2f} s")


def roll_server(rehearsal: Rehearsal) -> None:
    ending = [Ending(rehearsal, pod) for pod in rehearsal.cluster.serving()]
    restart(rehearsal, rehearsal.workload("serve")[1])
    for each in ending:
        each.verify()


def rotate(rehearsal: Rehearsal) -> None:
    """A new join token in the secret, then kubectl rollout restart of the server. Workers that it
    refuses end, and the kubelet starts them again with the new token."""
    cluster = rehearsal.cluster
    secrets = [each for each in cluster.manifest.of_kind("Secret")
               if "token" in {**each.get("data", {}), **each.get("stringData", {})}]
    if not secrets or not rehearsal.workers():
        raise Unplayable("it has no secret with a token")
    rehearsal.rotations += 1
    for each in secrets:
        each["stringData"] = {**each.get("stringData", {}),
                              "token": f"another token, number {rehearsal.rotations}"}
        each.get("data", {}).pop("token", None)
    restart(rehearsal, rehearsal.workload("serve")[1])


def renew(rehearsal: Rehearsal) -> None:
    """All certificates are renewed in their secrets. The server must use its new certificate for
    new connections, and workers that join again must accept it."""
    cluster = rehearsal.cluster
    if not rehearsal.is_secure():
        raise Unplayable("its ports do not use TLS")
    pod = cluster.serving()[0]
    address = pod.address, port_number("http", pod.spec["containers"])
    before = ssl.get_server_certificate(address)
    Issuer(rehearsal.folder).issue(cluster.manifest)
    seconds = cluster.wait(lambda: ssl.get_server_certificate(address) != before, 3 * SYNC_S,
                           "the server uses the new certificate")
    cluster.say(f"renew: the server used its new certificate after {seconds:.1f} s")
    time.sleep(SYNC_S)  # Until every kubelet has written the files.
    for name in sorted(each.name for each in rehearsal.workers()):
        worker = cluster.running[name].pod
        restarts = worker.restarts
        rehearsal.slot(worker).run.signal(9)
        cluster.wait(lambda: worker.restarts > restarts, 30, f"a restart of {name}")
        rehearsal.recovered()
    if pod.restarts:
        raise Broken(f"renew: {pod.name} must not restart, found {pod.restarts} restarts")
