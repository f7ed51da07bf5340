# SPDX-License-Identifier: Apache-2.0
"""Pods, and the kubelet that runs a pod's containers: start, probes, restarts with back-off, and
the end by preStop, SIGTERM, grace and SIGKILL. `step` is called repeatedly with the current time,
and waits only for its runtime, so tests can pass a simulated time and runtime."""

import dataclasses
import signal
import uuid
from typing import Callable

from manifests import Broken
from probes import Probe

BACK_OFF_S, MAX_BACK_OFF_S, FORGET_S = 10.0, 300.0, 600.0
SANDBOX_S = 1.0  # The network of a pod ends this time after its containers.
LEAST_GRACE_S = 2.0  # A container has at least this time after SIGTERM, however long preStop took.


@dataclasses.dataclass
class Pod:
    """A pod as the API server stores it."""
    object: dict
    node: str = ""
    address: str = ""
    deleted: bool = False  # It has a deletion timestamp.
    grace: float = 30.0
    ready: bool = False
    restarts: int = 0
    gone: bool = False  # All its containers ended; the object can go.
    problem: str = ""
    uid: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self):
        self.object["metadata"]["uid"] = self.uid
        self.grace = self.spec.get("terminationGracePeriodSeconds", 30)

    @property
    def spec(self) -> dict:
        return self.object["spec"]

    @property
    def name(self) -> str:
        return self.object["metadata"]["name"]

    @property
    def labels(self) -> dict:
        return self.object["metadata"].get("labels", {})

    @property
    def owner(self) -> tuple:
        return tuple(self.object["metadata"]["owner"])

    @property
    def revision(self) -> str:
        return self.object["metadata"]["revision"]

    def state(self) -> str:
        """The state in a few words."""
        word = "ends" if self.deleted else "ready" if self.ready else "not ready"
        return f"{word} ({self.restarts} restarts)"

    @property
    def leader(self) -> str:
        return self.object["metadata"].get("leader", "")


class Back:
    """The delays between restarts: none, 10 s, 20 s, and so on; forgotten after 10 minutes."""

    def __init__(self):
        self.delay = 0.0

    def after(self, lived: float) -> float:
        found = 0.0 if lived > FORGET_S else self.delay
        self.delay = min(MAX_BACK_OFF_S, max(BACK_OFF_S, 2 * found))
        return found


class Slot:
    """A container of the pod's spec, and the runtime's container that runs for it now."""

    def __init__(self, spec: dict):
        self.spec = spec
        self.run = None  # The runtime's container.
        self.began = 0.0
        self.starts_at: float | None = 0.0  # None: it ended for good.
        self.back = Back()
        self.count = 0
        self.probes: dict[str, Probe] = {}
        self.ending = ""  # The reason for which the kubelet ends it.
        self.is_hook_cut = False  # preStop failed, or took longer than the grace.
        self.terminated_at: float | None = None  # The time of SIGTERM.
        self.killed_at = 0.0  # The time at which SIGKILL is due.
        self.ended_at = 0.0
        self.last = ""

    @property
    def stays(self) -> bool:
        """True for an init container that runs beside the others, a sidecar."""
        return self.spec.get("restartPolicy") == "Always"

    def started(self) -> bool:
        startup = self.probes.get("startupProbe")
        return self.run is not None and (startup is None or startup.state is True)

    def is_ready(self) -> bool:
        readiness = self.probes.get("readinessProbe")
        return self.started() and (readiness is None or readiness.state is True)


class Kubelet:
    """Runs one pod. `runtime` starts containers; `ask(probe, slot, take)` asks a probe and calls
    take(result); `hook(slot, handler, done)` runs a preStop handler; `say` gets lines of a log."""

    def __init__(self, pod: Pod, runtime: Callable, ask: Callable, hook: Callable,
                 say: Callable[[str], None]):
        self.pod, self.runtime, self.ask, self.hook, self.say = pod, runtime, ask, hook, say
        self.first = [Slot(each) for each in pod.spec.get("initContainers", [])]
        self.slots = [Slot(each) for each in pod.spec["containers"]]
        self.ends_at: float | None = None
        self.ran = 0.0
        self.asked: set = set()

    def step(self, now: float) -> None:
        if self.pod.gone:
            return
        if self.pod.deleted:
            self.end_all(now)
        for slot in self.first + self.slots:
            self.watch(slot, now)
        if not self.pod.deleted:
            self.start_due(now)
        self.pod.ready = all(slot.is_ready() for slot in self.first + self.slots
                             if slot.stays or slot in self.slots)
        if any(slot.run for slot in self.first + self.slots):
            self.ran = now
        elif self.pod.deleted and now >= self.ran + SANDBOX_S:
            self.pod.ready, self.pod.gone = False, True
            self.say(f"{self.pod.name}: gone")

    def start_due(self, now: float) -> None:
        for slot in self.first:
            if slot.run is None and slot.starts_at is not None and now >= slot.starts_at:
                self.start(slot, now)
            if not slot.started() if slot.stays else slot.run or slot.starts_at is not None:
                return
        for slot in self.slots:
            if slot.run is None and slot.starts_at is not None and now >= slot.starts_at:
                self.start(slot, now)

    def start(self, slot: Slot, now: float) -> None:
        try:
            slot.run = self.runtime(slot.spec, slot.count)
            self.pod.problem = ""
        except Broken as error:  # CreateContainerConfigError and the like.
            self.pod.problem = f"{self.pod.name}: {slot.spec['name']}: {error}"
            self.say(self.pod.problem)
            slot.starts_at = now + BACK_OFF_S
            return
        slot.count += 1
        slot.began, slot.ending, slot.terminated_at = now, "", None
        slot.probes = {name: Probe(slot.spec[name], now) for name in
                       ("startupProbe", "livenessProbe", "readinessProbe") if name in slot.spec}
        self.say(f"{self.pod.name}: {slot.spec['name']} runs")

    def watch(self, slot: Slot, now: float) -> None:
        if slot.run is None:
            return
        if not slot.run.running():
            self.ended(slot, now)
            return
        if slot.ending and now >= slot.killed_at:
            self.say(f"{self.pod.name}: {slot.spec['name']} gets SIGKILL: its grace is over")
            slot.killed_at = now + 3600
            slot.run.signal(signal.SIGKILL)
        self.probe(slot, now)

    def ended(self, slot: Slot, now: float) -> None:
        code, slot.ended_at = slot.run.code, now
        slot.last = "OOMKilled" if slot.run.out_of_memory else f"exit code {code}"
        wait = slot.back.after(now - slot.began)
        policy = self.pod.spec.get("restartPolicy", "Always")
        again = policy == "Always" or (policy == "OnFailure" and code != 0)
        if slot in self.first:
            again = slot.stays or (code != 0 and policy != "Never")
        self.say(f"{self.pod.name}: {slot.spec['name']} ended ({slot.last})" + (
            f", starts again in {wait:.0f} s" if again and not self.pod.deleted else ""))
        slot.run, slot.probes = None, {}
        self.pod.ready = False
        slot.starts_at = now + wait if again else None
        if again and not self.pod.deleted:
            self.pod.restarts += 1

    def probe(self, slot: Slot, now: float) -> None:
        for name, probe in slot.probes.items():
            waits = name != "startupProbe" and not slot.started()
            over = name == "startupProbe" and probe.state is not None
            stops = name != "readinessProbe" and (slot.ending or self.pod.deleted)
            if waits or over or stops or now < probe.due or (id(probe) in self.asked):
                continue
            self.asked.add(id(probe))
            self.ask(probe, slot, lambda result, at, name=name, probe=probe: self.take(
                slot, name, probe, result, at))

    def take(self, slot: Slot, name: str, probe: Probe, result: bool, now: float) -> None:
        self.asked.discard(id(probe))
        before = probe.state
        probe.take(result, now)
        if slot.probes.get(name) is not probe:
            return  # The container was replaced meanwhile.
        if probe.state != before and (probe.state is False or name == "readinessProbe"):
            self.say(f"{self.pod.name}: {slot.spec['name']}: {name} is "
                     f"{'successful' if probe.state else 'a failure'}")
        if name != "readinessProbe" and probe.state is False and not slot.ending:
            grace = probe.spec.get("terminationGracePeriodSeconds", self.pod.grace)
            self.end(slot, f"{name} failed", grace, now)

    def end(self, slot: Slot, reason: str, grace: float, now: float) -> None:
        """preStop, then SIGTERM, then SIGKILL; the grace begins now."""
        if slot.run is None or slot.ending:
            return
        slot.ending, slot.killed_at = reason, now + grace
        self.say(f"{self.pod.name}: {slot.spec['name']} is ended: {reason}")
        handler, run = slot.spec.get("lifecycle", {}).get("preStop"), slot.run

        def terminate(at: float) -> None:
            slot.killed_at = max(slot.killed_at, at + LEAST_GRACE_S)
            slot.terminated_at = at
            run.signal(signal.SIGTERM)

        if handler:
            self.hook(slot, handler, terminate)
        else:
            terminate(now)

    def end_all(self, now: float) -> None:
        if self.ends_at is None:
            self.ends_at = now + self.pod.grace
        waits = [slot for slot in self.slots if slot.run]
        for slot in waits or self.first:  # Sidecars end after all others.
            self.end(slot, "the pod is deleted", max(0, self.ends_at - now), now)
