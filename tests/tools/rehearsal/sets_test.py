# SPDX-License-Identifier: Apache-2.0
"""The controllers of workloads in tools/rehearsal follow the rules of Kubernetes."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools/rehearsal"))

import sets  # noqa: E402
from pods import Pod  # noqa: E402

TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [
    {"name": "c", "image": "i"}]}}


def workload(kind: str, replicas: int, **spec) -> dict:
    return {"kind": kind, "metadata": {"name": "w", "namespace": "n"},
            "spec": {"replicas": replicas, "serviceName": "s", "template": TEMPLATE, **spec}}


class Simulated:
    """A controller with simulated pods, which become ready or end only when the test says so."""

    def __init__(self, controller):
        self.controller = controller
        self.pods: dict[str, Pod] = {}
        self.serial = 0

    def turn(self, thing: dict) -> None:
        if thing["kind"] == "Deployment":
            actions = self.controller(thing, list(self.pods.values()), self.serial)
        else:
            actions = self.controller(thing, list(self.pods.values()))
        for pod in actions.delete:
            pod.deleted = True
        for made in actions.create:
            self.serial += 1
            self.pods[made["metadata"]["name"]] = Pod(made, address=f"10.0.0.{self.serial}")

    def ready(self) -> None:
        for pod in self.pods.values():
            pod.ready = not pod.deleted

    def end(self) -> None:
        self.pods = {name: pod for name, pod in self.pods.items() if not pod.deleted}

    def names(self) -> list:
        return sorted(self.pods)


def changed(thing: dict) -> dict:
    template = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "annotations": {"at": "now"}}}
    return {**thing, "spec": {**thing["spec"], "template": template}}


class SetsTest(unittest.TestCase):
    def test_recreate_makes_the_new_pod_after_the_old_one_ended(self):
        now = Simulated(sets.deployment)
        thing = workload("Deployment", 1, strategy={"type": "Recreate"})
        now.turn(thing)
        now.ready()
        old = now.names()
        now.turn(changed(thing))
        now.turn(changed(thing))
        self.assertEqual(now.names(), old)
        self.assertTrue(now.pods[old[0]].deleted)
        now.end()
        now.turn(changed(thing))
        self.assertEqual(len(now.pods), 1)
        self.assertNotEqual(now.names(), old)

    def test_a_rolling_deployment_keeps_its_replicas_ready(self):
        now = Simulated(sets.deployment)
        thing = workload("Deployment", 2, strategy={"rollingUpdate": {
            "maxSurge": 1, "maxUnavailable": 0}})
        now.turn(thing)
        now.ready()
        for _ in range(8):
            now.turn(changed(thing))
            self.assertGreaterEqual(
                sum(pod.ready and not pod.deleted for pod in now.pods.values()), 2)
            self.assertLessEqual(sum(not pod.deleted for pod in now.pods.values()), 3)
            now.ready()
            now.end()
        self.assertEqual({pod.revision for pod in now.pods.values()},
                         {sets.revision(changed(thing)["spec"]["template"])})

    def test_a_parallel_set_starts_all_and_an_ordered_one_each_after_the_one_before(self):
        for policy, first in (("Parallel", ["w-0", "w-1", "w-2"]), ("OrderedReady", ["w-0"])):
            now = Simulated(sets.stateful_set)
            thing = workload("StatefulSet", 3, podManagementPolicy=policy)
            now.turn(thing)
            self.assertEqual(now.names(), first)
            now.ready()
            now.turn(thing)
        self.assertEqual(now.names(), ["w-0", "w-1"])

    def test_a_set_replaces_a_pod_only_after_it_is_gone(self):
        now = Simulated(sets.stateful_set)
        thing = workload("StatefulSet", 2, podManagementPolicy="Parallel")
        now.turn(thing)
        now.pods["w-1"].deleted = True
        before = now.pods["w-1"].uid
        now.turn(thing)
        self.assertEqual(now.pods["w-1"].uid, before)
        now.end()
        now.turn(thing)
        self.assertNotEqual(now.pods["w-1"].uid, before)
        self.assertEqual(now.pods["w-1"].labels["apps.kubernetes.io/pod-index"], "1")

    def test_a_set_rolls_from_the_highest_ordinal_and_waits_for_each(self):
        now = Simulated(sets.stateful_set)
        thing = workload("StatefulSet", 3, podManagementPolicy="Parallel",
                         updateStrategy={"rollingUpdate": {"partition": 1}})
        now.turn(thing)
        now.ready()
        order = []
        for _ in range(12):
            now.turn(changed(thing))
            ending = [pod.name for pod in now.pods.values() if pod.deleted]
            self.assertLessEqual(len(ending), 1)
            order += [name for name in ending if name not in order]
            now.end()
            now.turn(changed(thing))
            now.turn(changed(thing))
            self.assertFalse([pod for pod in now.pods.values() if pod.deleted])
            now.ready()
        self.assertEqual(order, ["w-2", "w-1"])

    def test_a_group_of_policy_none_keeps_the_others_when_a_worker_ends(self):
        for policy, ending in (("None", ["w-0-1"]),
                               ("RecreateGroupOnPodRestart", ["w-0", "w-0-1", "w-0-2"])):
            now = Simulated(sets.leader_worker_set)
            thing = {"kind": "LeaderWorkerSet", "metadata": {"name": "w", "namespace": "n"},
                     "spec": {"replicas": 1, "leaderWorkerTemplate": {
                         "size": 3, "restartPolicy": policy, "workerTemplate": TEMPLATE}}}
            for _ in range(3):
                now.turn(thing)
                now.ready()
            self.assertEqual(now.names(), ["w-0", "w-0-1", "w-0-2"])
            environment = now.pods["w-0-2"].spec["containers"][0]["env"]
            self.assertIn({"name": "LWS_LEADER_ADDRESS", "value": "w-0.w.n"}, environment)
            self.assertIn({"name": "LWS_WORKER_INDEX", "value": "2"}, environment)
            now.pods["w-0-1"].deleted = True
            for _ in range(3):
                now.turn(thing)
            self.assertEqual(sorted(name for name, pod in now.pods.items() if pod.deleted), ending)


    def test_groups_are_updated_with_a_surge_and_all_replicas_stay_ready(self):
        now = Simulated(sets.leader_worker_set)
        thing = {"kind": "LeaderWorkerSet", "metadata": {"name": "w", "namespace": "n"},
                 "spec": {"replicas": 2, "rolloutStrategy": {"rollingUpdateConfiguration": {
                     "maxSurge": 1, "maxUnavailable": 0}}, "leaderWorkerTemplate": {
                         "size": 2, "restartPolicy": "None", "workerTemplate": TEMPLATE}}}

        def settle(of: dict) -> None:
            now.turn(of)
            now.turn(of)
            now.ready()
        settle(thing)
        self.assertEqual(now.names(), ["w-0", "w-0-1", "w-1", "w-1-1"])
        new = {**thing, "spec": {**thing["spec"], "leaderWorkerTemplate": {
            **thing["spec"]["leaderWorkerTemplate"], "workerTemplate": {
                **TEMPLATE, "metadata": {"labels": {"app": "b"}}}}}}
        seen = set()
        for _ in range(12):
            settle(new)
            seen |= set(now.names())
            heads = [pod for pod in now.pods.values() if pod.name.count("-") == 1]
            self.assertGreaterEqual(sum(pod.ready and not pod.deleted for pod in heads), 2)
            now.end()
        self.assertIn("w-2", seen)
        self.assertEqual(now.names(), ["w-0", "w-0-1", "w-1", "w-1-1"])
        self.assertEqual({pod.labels["app"] for pod in now.pods.values()}, {"b"})

    def test_a_smaller_number_of_replicas_ends_the_last_groups(self):
        now = Simulated(sets.leader_worker_set)
        thing = {"kind": "LeaderWorkerSet", "metadata": {"name": "w", "namespace": "n"},
                 "spec": {"replicas": 2, "leaderWorkerTemplate": {
                     "size": 1, "restartPolicy": "None", "workerTemplate": TEMPLATE}}}
        now.turn(thing)
        now.ready()
        now.turn({**thing, "spec": {**thing["spec"], "replicas": 1}})
        self.assertEqual([name for name, pod in now.pods.items() if pod.deleted], ["w-1"])


if __name__ == "__main__":
    unittest.main()
