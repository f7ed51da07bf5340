# SPDX-License-Identifier: Apache-2.0
"""Events that a cluster must survive, as one table. A scenario causes a fault under load and
returns when the manifests promise that everything is as before."""

import dataclasses
from typing import Callable

from events import losses, networks, updates
from events.rehearsal import Rehearsal


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    help: str
    play: Callable[[Rehearsal], None]
    loses: bool = False  # Its requests may be lost: the server's process is killed.
    refuses: bool = False  # New requests may be refused: the server's pod is replaced.


SCENARIOS = [
    Scenario("start", "pods start in random order", losses.undisturbed),
    Scenario("kill", "kill -9 of a worker", losses.kill),
    Scenario("kill-server", "kill -9 of the server: its requests are lost, by design",
             losses.kill_server, loses=True, refuses=True),
    Scenario("delete", "a worker's pod is deleted", losses.delete),
    Scenario("node-gone", "a node with workers stops, and is removed", losses.node_gone),
    Scenario("drain", "two nodes with workers are drained at once", updates.drain),
    Scenario("roll-workers", "rollout restart of the workers", updates.roll_workers),
    Scenario("roll-server", "rollout restart of the server (in lws, of the groups)",
             updates.roll_server, refuses=True),
    Scenario("wrong-token", "a worker with another token", networks.wrong_token),
    Scenario("policy", "policies cut off a worker for 15 s", networks.policy),
    Scenario("oom", "a worker reaches its memory limit", losses.out_of_memory),
    Scenario("full-disk", "all writable folders are full, and a worker is killed",
             losses.full_disk),
    # Requests may be refused: the group waits for a worker that has joined, and services drop a
    # server without a group.
    Scenario("slow-volume", "a worker starts again with a slow volume for the model",
             losses.slow_volume, refuses=True),
    Scenario("descriptors", "all pods have few descriptors for a time", losses.few_descriptors,
             refuses=True),
    Scenario("rotate", "the join token is rotated", updates.rotate, refuses=True),
    Scenario("renew", "all certificates are renewed, and the workers are killed", updates.renew),
    Scenario("proxy", "HAProxy in front of two groups, which are updated", networks.proxy),
    Scenario("scale", "more clients come, until the autoscaler adds a group", networks.scale),
]
