# SPDX-License-Identifier: Apache-2.0
"""The controllers of Deployment, StatefulSet and LeaderWorkerSet: each returns the pods to create
and to delete now, and has no state. This file also decides which evictions the disruption
budgets allow."""

import copy
import dataclasses
import hashlib
import json
import math

from manifests import matches

LWS = "leaderworkerset.sigs.k8s.io"


@dataclasses.dataclass
class Actions:
    create: list = dataclasses.field(default_factory=list)  # Pods as objects of Kubernetes.
    delete: list = dataclasses.field(default_factory=list)  # Pods of this rehearsal.


def revision(template: dict) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def pod_of(owner: dict, template: dict, name: str, labels: dict | None = None,
           **spec) -> dict:
    """A pod from the owner's template."""
    made = copy.deepcopy(template)
    meta = made.setdefault("metadata", {})
    meta.update(name=name, namespace=owner["metadata"]["namespace"],
                owner=(owner["kind"], owner["metadata"]["name"]), revision=revision(template))
    meta["labels"] = {**meta.get("labels", {}), **(labels or {})}
    made["spec"].update(spec)
    return made


def amount(value, replicas: int, up: bool) -> int:
    """A number of pods, or a part of the replicas such as 25%."""
    if isinstance(value, str) and value.endswith("%"):
        part = replicas * float(value[:-1]) / 100
        return math.ceil(part) if up else math.floor(part)
    return int(value)


def deployment(thing: dict, pods: list, serial: int) -> Actions:
    """`serial` makes the names of new pods unique."""
    spec, template = thing["spec"], thing["spec"]["template"]
    replicas, now = spec.get("replicas", 1), revision(template)
    live = [pod for pod in pods if not pod.deleted]
    new = [pod for pod in live if pod.revision == now]
    old = [pod for pod in live if pod.revision != now]
    actions = Actions()

    def add(count: int) -> None:
        name = f"{thing['metadata']['name']}-{now}"
        actions.create += [pod_of(thing, template, f"{name}-{serial + index}",
                                  {"pod-template-hash": now}) for index in range(count)]

    strategy = spec.get("strategy", {})
    if strategy.get("type") == "Recreate":
        actions.delete += old
        if all(pod.revision == now for pod in pods):
            add(replicas - len(new))
    else:
        rolling = strategy.get("rollingUpdate") or {}
        surge = amount(rolling.get("maxSurge", "25%"), replicas, True)
        away = amount(rolling.get("maxUnavailable", "25%"), replicas, False) if surge else max(
            1, amount(rolling.get("maxUnavailable", "25%"), replicas, False))
        add(min(replicas - len(new), replicas + surge - len(live)))
        spare = sum(pod.ready for pod in live) - (replicas - away)
        for pod in sorted(old, key=lambda pod: pod.ready):
            if not pod.ready or spare > 0:
                actions.delete.append(pod)
                spare -= pod.ready
    actions.delete += sorted(new, key=lambda pod: pod.ready)[:max(0, len(new) - replicas)]
    return actions


def ordinal(pod) -> int:
    return int(pod.name.rsplit("-", 1)[1])


def stateful_set(thing: dict, pods: list, before: dict | None = None) -> Actions:
    """`before` is the template that pods below the partition keep."""
    spec, name = thing["spec"], thing["metadata"]["name"]
    first = spec.get("ordinals", {}).get("start", 0)
    wanted = range(first, first + spec.get("replicas", 1))
    update = spec.get("updateStrategy", {})
    rolls = update.get("type", "RollingUpdate") == "RollingUpdate"
    partition = (update.get("rollingUpdate") or {}).get("partition", 0) if rolls else 0
    one_by_one = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    by_ordinal = {ordinal(pod): pod for pod in pods}
    actions = Actions()
    for index in wanted:
        pod = by_ordinal.get(index)
        if pod is None:
            template = before if before and index < partition else spec["template"]
            actions.create.append(pod_of(
                thing, template, f"{name}-{index}",
                {"apps.kubernetes.io/pod-index": str(index),
                 "statefulset.kubernetes.io/pod-name": f"{name}-{index}"},
                hostname=f"{name}-{index}", subdomain=spec["serviceName"]))
        if one_by_one and not (pod and pod.ready and not pod.deleted):
            return actions
    surplus = [pod for index, pod in sorted(by_ordinal.items(), reverse=True)
               if index not in wanted]
    if surplus:
        actions.delete += [pod for pod in (surplus[:1] if one_by_one else surplus)
                           if not pod.deleted]
        return actions
    if rolls and not actions.create:
        now = revision(spec["template"])
        for index in reversed(wanted):
            pod = by_ordinal[index]
            if index >= partition and pod.revision != now and not pod.deleted:
                actions.delete.append(pod)
                break
            if pod.deleted or not pod.ready:
                break
    return actions


def lws_variables(thing: dict, template: dict, group: int, worker: int) -> dict:
    """The template with the variables that the controller adds to each container."""
    name, space = thing["metadata"]["name"], thing["metadata"]["namespace"]
    made = copy.deepcopy(template)
    added = [("LWS_LEADER_ADDRESS", f"{name}-{group}.{name}.{space}"),
             ("LWS_GROUP_SIZE", str(thing["spec"]["leaderWorkerTemplate"].get("size", 1))),
             ("LWS_WORKER_INDEX", str(worker))]
    for container in made["spec"].get("initContainers", []) + made["spec"]["containers"]:
        container["env"] = [{"name": key, "value": value} for key, value in added] + container.get(
            "env", [])
    return made


class Groups:
    """The groups of a LeaderWorkerSet by index, each a list of pods."""

    def __init__(self, size: int, now: str, pods: list):
        self.size, self.now = size, now
        self.members: dict[int, list] = {}
        for pod in pods:
            self.members.setdefault(self.index(pod), []).append(pod)

    @staticmethod
    def index(pod) -> int:
        return int(pod.labels[f"{LWS}/group-index"])

    def is_ready(self, index: int) -> bool:
        mine = self.members.get(index, [])
        return len(mine) == self.size and all(pod.ready and not pod.deleted for pod in mine)

    def is_new(self, index: int) -> bool:
        return all(pod.revision == self.now for pod in self.members.get(index, []))

    def count(self, replicas: int, surge: int) -> int:
        """The number of groups to have now. It is more than `replicas` while a group has an old
        template, and then until all groups are ready."""
        if not all(self.is_new(index) for index in range(replicas)):
            return replicas + surge
        if all(self.is_ready(index) for index in range(replicas)):
            return replicas
        return max([replicas, *(index + 1 for index in self.members)])


def outdated(thing: dict, groups: Groups, count: int) -> int | None:
    """The index of the group that the update replaces now, or None."""
    replicas = thing["spec"].get("replicas", 1)
    rolling = thing["spec"].get("rolloutStrategy", {}).get("rollingUpdateConfiguration") or {}
    away = amount(rolling.get("maxUnavailable", 1), replicas, False)
    ready = sum(groups.is_ready(index) for index in range(count))
    for index in reversed(range(replicas)):
        if not groups.is_new(index):
            fits = ready > replicas - away or not groups.is_ready(index)
            return index if fits else None
        if not groups.is_ready(index):
            return None
    return None


def leader_worker_set(thing: dict, pods: list) -> Actions:
    """The leader of group G is NAME-G and its workers are NAME-G-1 and on; workers live as long as
    their leader does."""
    name, whole = thing["metadata"]["name"], thing["spec"]["leaderWorkerTemplate"]
    size, replicas, now = whole.get("size", 1), thing["spec"].get("replicas", 1), revision(whole)
    leader = whole.get("leaderTemplate") or whole["workerTemplate"]
    rolling = thing["spec"].get("rolloutStrategy", {}).get("rollingUpdateConfiguration") or {}
    groups, known = Groups(size, now, pods), {pod.name: pod for pod in pods}
    actions = Actions()

    def add(template: dict, group: int, worker: int, owner_uid: str) -> None:
        pod_name = f"{name}-{group}" + (f"-{worker}" if worker else "")
        made = pod_of(thing, lws_variables(thing, template, group, worker), pod_name, {
            f"{LWS}/name": name, f"{LWS}/group-index": str(group),
            f"{LWS}/worker-index": str(worker)}, hostname=pod_name, subdomain=name)
        made["metadata"].update(revision=now, leader=owner_uid)
        made["metadata"].setdefault("annotations", {})[f"{LWS}/size"] = str(size)
        actions.create.append(made)

    recreates = whole.get("restartPolicy", "RecreateGroupOnPodRestart") != "None"
    waits = thing["spec"].get("startupPolicy", "LeaderCreated") == "LeaderReady"
    count = groups.count(replicas, amount(rolling.get("maxSurge", 0), replicas, True))
    updated = outdated(thing, groups, count)
    for group in reversed(range(count)):
        head, mine = known.get(f"{name}-{group}"), groups.members.get(group, [])
        if head is None:
            add(leader, group, 0, "")
        elif head.deleted:
            actions.delete += [pod for pod in mine if not pod.deleted]
        elif group == updated or recreates and any(pod.restarts or pod.deleted for pod in mine):
            actions.delete.append(head)
        elif head.revision == now and (head.ready or not waits):
            for worker in range(1, size):
                pod = known.get(f"{name}-{group}-{worker}")
                if pod is None:
                    add(whole["workerTemplate"], group, worker, head.uid)
                elif pod.leader != head.uid and not pod.deleted:
                    actions.delete.append(pod)
    actions.delete += [pod for pod in pods if groups.index(pod) >= count and not pod.deleted]
    return actions


def disruptions(budget: dict, pods: list, expected: int) -> int:
    """The number of the budget's pods that may be evicted now. `expected`: its workloads' pods."""
    mine = [pod for pod in pods if matches(budget["spec"]["selector"], pod.labels)]
    healthy = sum(pod.ready and not pod.deleted for pod in mine)
    if "minAvailable" in budget["spec"]:
        return healthy - amount(budget["spec"]["minAvailable"], expected, True)
    return healthy - (expected - amount(budget["spec"]["maxUnavailable"], expected, True))


def may_evict(pod, pods: list, budgets: list, expected: int) -> bool:
    """True if every budget of the pod allows it."""
    return all(disruptions(budget, pods, expected) > 0 for budget in budgets
               if matches(budget["spec"]["selector"], pod.labels))
