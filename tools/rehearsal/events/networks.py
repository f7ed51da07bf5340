# SPDX-License-Identifier: Apache-2.0
"""Events outside the pods: strangers, policies, proxies, and more clients."""

import copy
import time
from pathlib import Path

from events.autoscaler import Autoscaler, gauges
from events.proxy import ADDRESS, GRPC_PORT, HTTP_PORT, PROGRAM, Proxy
from events.rehearsal import Rehearsal, Unplayable
from events.updates import roll_server
from manifests import Broken

CHECKED_S = 2  # HAProxy has checked each server after this time.
CROWD = 100  # Clients; the server computes 64 sequences together.


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
    label = next((each for each in pod.labels if each.endswith(("pod-name", "worker-index"))), "")
    own = {"key": label, "operator": "NotIn", "values": [pod.labels[label]]}
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


def scaled(rehearsal: Rehearsal, thing: dict, replicas: int) -> None:
    """kubectl scale."""
    with rehearsal.cluster.lock:
        thing["spec"]["replicas"] = replicas
    rehearsal.recovered()


def proxy(rehearsal: Rehearsal) -> None:
    """HAProxy in front of two groups, which are updated one after the other: no request is
    refused."""
    thing, _ = rehearsal.workload("serve")
    if thing["kind"] != "LeaderWorkerSet":
        raise Unplayable("it has one server")
    if not Path(PROGRAM).exists():
        raise Unplayable("no haproxy is installed")
    before = thing["spec"].get("replicas", 1)
    rehearsal.after.append(lambda: scaled(rehearsal, thing, before))
    scaled(rehearsal, thing, 2)
    server = Proxy(rehearsal.cluster, rehearsal.folder)
    rehearsal.after.append(server.close)
    for _ in range(2):  # A server counts as up until its first check.
        rehearsal.cluster.wait(lambda: server.up() == 2, rehearsal.patience, "two servers are up")
        time.sleep(CHECKED_S)
    rehearsal.after.append(rehearsal.begin_load)
    rehearsal.begin_load(rehearsal.clients_of(ADDRESS, HTTP_PORT, GRPC_PORT, rehearsal.clients))
    roll_server(rehearsal)
    rehearsal.recovered()
    rehearsal.cluster.say(f"proxy: it sent {server.repeated()} requests again")


def scale(rehearsal: Rehearsal) -> None:
    """More clients come, until the autoscaler adds a group; then they go. The autoscaler must then
    ask for fewer groups. A real one removes them 300 s later; the scenario does not wait for
    that."""
    cluster, scaler = rehearsal.cluster, Autoscaler.of(rehearsal.cluster.manifest)
    if scaler is None:
        raise Unplayable("it has no autoscaler")
    thing = cluster.manifest.get(*scaler.target)
    before = thing["spec"].get("replicas", 1)
    seen: dict[str, float] = {}

    def desired() -> int:
        pods = [gauges(rehearsal.get(pod, "/metrics")[2]) for pod in cluster.serving()]
        for name in scaler.limits:
            seen[name] = max(seen.get(name, 0.0), *(each[name] for each in pods))
        return scaler.desired(max(1, len(pods)), pods)

    rehearsal.after.append(lambda: scaled(rehearsal, thing, before))
    crowd = rehearsal.clients_of_service(CROWD)
    try:
        cluster.wait(lambda: desired() > before, rehearsal.patience, "the autoscaler adds a group")
        count = desired()
        cluster.say(f"scale: {seen}, {count} groups")
        scaled(rehearsal, thing, min(count, before + 1))
        found = crowd.counts()
    finally:
        crowd.close()
    if found["lost"] + found["changed"]:
        raise Broken(f"scale: must lose no answer, found {found['lost'] + found['changed']}")
    if not all(seen.values()):
        raise Broken(f"scale: every metric of the autoscaler must rise under load, found {seen}")
    cluster.wait(lambda: desired() == scaler.low, rehearsal.patience,
                 "the autoscaler removes the groups")
