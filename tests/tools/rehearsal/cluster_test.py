# SPDX-License-Identifier: Apache-2.0
"""The controllers of tools/rehearsal follow the rules of Kubernetes, without containers."""

import signal
import struct
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tools/rehearsal"))
sys.path.insert(0, str(SOURCE / "tests/support"))

import policies  # noqa: E402
import services  # noqa: E402
import sets  # noqa: E402
from load import is_refused  # noqa: E402
from manifests import Broken, Manifest, matches, quantity  # noqa: E402
from pods import Kubelet, Pod  # noqa: E402
from probes import Probe  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402

TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [
    {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8000}]}]}}


class Run:
    """A container of a test: SIGTERM ends it if it obeys."""

    def __init__(self, obeys: bool = True):
        self.obeys, self.code, self.out_of_memory, self.signals = obeys, None, False, []

    def running(self) -> bool:
        return self.code is None

    def signal(self, number: int) -> None:
        self.signals.append(number)
        if number == signal.SIGKILL or self.obeys:
            self.code = 137 if number == signal.SIGKILL else 0


class KubeletOfTest:
    def __init__(self, probes: dict, answers, hooks=None, obeys: bool = True, **spec):
        container = {"name": "c", "image": "i", **probes}
        self.pod = Pod({"metadata": {"name": "p", "owner": ("", ""), "revision": ""},
                        "spec": {"containers": [container], **spec}})
        self.runs, self.hooks, self.said = [], hooks if hooks is not None else [], []
        self.obeys = obeys
        self.now = 0.0
        self.kubelet = Kubelet(self.pod, self.start, lambda probe, slot, take: take(
            answers(probe, self.now), self.now), lambda slot, handler, done: self.hooks.append(
                done), self.said.append)

    def start(self, _spec, _count) -> Run:
        self.runs.append(Run(self.obeys))
        return self.runs[-1]

    def until(self, end: float) -> None:
        while self.now < end:
            self.kubelet.step(self.now)
            self.now += 0.25


class KubeletTest(unittest.TestCase):
    def test_restarts_back_off_from_0_to_10_20_and_40_seconds(self):
        one = KubeletOfTest({}, None)
        starts = []
        while one.now < 100:
            count = len(one.runs)
            one.until(one.now + 0.25)
            if len(one.runs) > count:
                starts.append(one.now)
                one.runs[-1].code = 1
        gaps = [round(b - a) for a, b in zip(starts, starts[1:])]
        self.assertEqual(gaps[:4], [0, 10, 20, 40])

    def test_readiness_counts_only_after_the_startup_probe(self):
        begin = 7.0
        one = KubeletOfTest({"startupProbe": {"periodSeconds": 1, "failureThreshold": 30},
                             "readinessProbe": {"periodSeconds": 1}},
                            lambda probe, now: "failureThreshold" not in probe.spec or now >= begin)
        one.until(6)
        self.assertFalse(one.pod.ready)
        one.until(10)
        self.assertTrue(one.pod.ready)

    def test_a_failed_liveness_probe_restarts_after_its_threshold(self):
        one = KubeletOfTest({"livenessProbe": {"periodSeconds": 2, "failureThreshold": 3}},
                            lambda probe, now: now < 10)
        one.until(13.5)
        self.assertEqual(one.runs[0].signals, [])
        one.until(17)
        self.assertEqual(one.runs[0].signals, [signal.SIGTERM])
        self.assertEqual(len(one.runs), 2)

    def test_the_grace_includes_pre_stop_and_then_sigkill_follows(self):
        one = KubeletOfTest({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}, None,
                            obeys=False, terminationGracePeriodSeconds=8)
        one.until(2)
        one.pod.deleted = True
        one.until(7)
        self.assertEqual(one.runs[0].signals, [])
        one.hooks[0](one.now)
        one.until(9.5)
        self.assertEqual(one.runs[0].signals, [signal.SIGTERM])
        one.until(12)
        self.assertEqual(one.runs[0].signals, [signal.SIGTERM, signal.SIGKILL])
        self.assertTrue(one.pod.gone)
        self.assertEqual(len(one.runs), 1)

    def test_a_sidecar_starts_first_counts_for_readiness_and_ends_last(self):
        ready = []
        one = KubeletOfTest({}, lambda probe, now: bool(ready), initContainers=[
            {"name": "s", "image": "i", "restartPolicy": "Always",
             "readinessProbe": {"periodSeconds": 1}}], obeys=False)
        one.until(2)
        self.assertEqual(len(one.runs), 2)
        self.assertFalse(one.pod.ready)
        ready.append(True)
        one.until(4)
        self.assertTrue(one.pod.ready)
        one.pod.deleted = True
        one.until(6)
        self.assertEqual([run.signals for run in one.runs], [[], [signal.SIGTERM]])
        one.runs[1].code = 0
        one.until(7)
        self.assertEqual(one.runs[0].signals, [signal.SIGTERM])

    def test_a_container_that_cannot_be_made_leaves_the_pod_with_a_problem(self):
        one = KubeletOfTest({}, None)

        def fail(_spec, _count):
            raise Broken("Secret s: must exist, found none")
        one.kubelet.runtime = fail
        one.until(1)
        self.assertIn("Secret s", one.pod.problem)

    def test_thresholds_count_results_in_a_row(self):
        probe = Probe({"successThreshold": 2, "failureThreshold": 3}, 0)
        states = []
        for result in (True, False, True, True, False, False, True, False, False, False):
            probe.take(result, 0)
            states.append(probe.state)
        self.assertEqual(states, [None, None, None, True, True, True, True, True, True, False])


def pod(name: str, labels: dict, ready: bool = True, deleted: bool = False) -> Pod:
    made = Pod({"metadata": {"name": name, "labels": labels, "owner": ("", ""), "revision": ""},
                "spec": {**TEMPLATE["spec"], "hostname": name, "subdomain": "s"}},
               address=f"10.0.0.{sum(name.encode())}")
    made.ready, made.deleted = ready, deleted
    return made


def service(**spec) -> dict:
    return {"kind": "Service", "metadata": {"name": "s", "namespace": "n"},
            "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": "http"}],
                     **spec}}


class ServicesTest(unittest.TestCase):
    def test_an_ending_pod_gets_connections_only_if_no_other_is_ready(self):
        old, new = pod("old", {"app": "a"}, deleted=True), pod("new", {"app": "a"}, ready=False)
        self.assertEqual(services.endpoints(service(), [old, new]), [old])
        new.ready = True
        self.assertEqual(services.endpoints(service(), [old, new]), [new])
        self.assertEqual(services.endpoints(service(), [pod("b", {"app": "b"})]), [])

    def test_a_headless_service_names_each_pod(self):
        one = pod("p-0", {"app": "a"}, ready=False)
        kept = service(clusterIP="None", publishNotReadyAddresses=True)
        known = services.names([kept], [one], {}, "n")
        self.assertEqual(known["p-0.s.n.svc.cluster.local"], [one.address])
        self.assertEqual(services.names([service(clusterIP="None")], [one], {}, "n"),
                         {"s.n.svc.cluster.local": []})

    def test_a_service_without_endpoints_refuses(self):
        self.assertIn("reject", services.rules([service()], [], {"s": "10.96.1.1"}))
        self.assertIn(" . 8000 }", services.rules([service()], [pod("p", {"app": "a"})],
                                                  {"s": "10.96.1.1"}))

    def test_the_name_server_answers_with_addresses_or_no_such_name(self):
        query = b"\x12\x34" + struct.pack(">HHHHH", 0x100, 1, 0, 0, 0) + b"\x01s\x01n\x00" + \
            struct.pack(">HH", 1, 1)
        self.assertTrue(services.answer(query, {"s.n": ["10.0.0.7"]}).endswith(b"\x0a\0\0\x07"))
        self.assertEqual(services.answer(query, {})[3] & 15, 3)


class PoliciesTest(unittest.TestCase):
    def setUp(self):
        space = {"kubernetes.io/metadata.name": "n"}
        self.server = policies.Peer("server", "n", {"app": "server"}, "10.0.0.1", space,
                                    TEMPLATE["spec"]["containers"])
        self.worker = policies.Peer("worker", "n", {"app": "worker"}, "10.0.0.2", space)
        self.client = policies.Peer("client", "c", {}, "10.0.0.3", {"clients": "true"})
        self.all = [self.server, self.worker, self.client]

    def chain(self, **spec):
        policy = {"metadata": {"name": "p", "namespace": "n"},
                  "spec": {"podSelector": {"matchLabels": {"app": "server"}}, **spec}}
        return policies.chain("Ingress", self.server, [policy], self.all)

    def test_a_pod_that_no_policy_selects_is_open(self):
        self.assertIsNone(policies.chain("Ingress", self.server, [], self.all))
        self.assertIsNone(self.chain(policyTypes=["Egress"]))

    def test_a_policy_without_rules_denies(self):
        self.assertEqual(self.chain(policyTypes=["Ingress"]), ["drop"])

    def test_entries_of_one_peer_are_both_needed_and_ports_have_names(self):
        both = {"namespaceSelector": {"matchLabels": {"clients": "true"}},
                "podSelector": {"matchLabels": {"app": "worker"}}}
        self.assertEqual(self.chain(ingress=[{"from": [both]}]), ["drop"])
        self.assertEqual(
            self.chain(ingress=[{"from": [{"namespaceSelector": both["namespaceSelector"]}],
                                 "ports": [{"port": "http"}]}]),
            ["ip saddr 10.0.0.3 tcp dport 8000 return", "drop"])
        self.assertEqual(self.chain(ingress=[{"from": [{"podSelector": both["podSelector"]}]}]),
                         ["ip saddr 10.0.0.2 return", "drop"])
        self.assertEqual(self.chain(ingress=[{}]), ["return", "drop"])


class ValuesTest(unittest.TestCase):
    def test_variables_come_from_every_source(self):
        manifest = Manifest.parse("""
{kind: ConfigMap, metadata: {name: c, namespace: n}, data: {A: "1"}}
---
{kind: Secret, metadata: {name: s, namespace: n}, data: {token: dG9rZW4=}}
""")
        container = {"name": "c", "envFrom": [{"configMapRef": {"name": "c"}}], "env": [
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "AT", "value": "$(IP):1 $$(IP) $(NONE)"}]}
        self.assertEqual(manifest.environment(container, {"status.podIP": "10.0.0.1"}),
                         {"A": "1", "T": "token", "IP": "10.0.0.1",
                          "AT": "10.0.0.1:1 $(IP) $(NONE)"})
        container["env"][0]["valueFrom"]["secretKeyRef"]["key"] = "other"
        with self.assertRaisesRegex(Broken, "must have the key other"):
            manifest.environment(container, {"status.podIP": ""})

    def test_quantities_and_selectors(self):
        self.assertEqual([quantity(each) for each in ("500m", "2Gi", 1)], [0.5, 2**31, 1])
        self.assertTrue(matches({"matchExpressions": [
            {"key": "a", "operator": "NotIn", "values": ["x"]}]}, {"a": "y"}))
        self.assertFalse(matches(None, {}))

    def test_a_budget_refuses_the_second_eviction(self):
        budget = {"spec": {"selector": {"matchLabels": {"app": "a"}}, "maxUnavailable": 1}}
        mine = [pod("p0", {"app": "a"}), pod("p1", {"app": "a"})]
        self.assertTrue(sets.may_evict(mine[0], mine, [budget], 2))
        mine[0].deleted = True
        self.assertFalse(sets.may_evict(mine[1], mine, [budget], 2))

    def test_a_refused_connection_is_no_lost_answer(self):
        self.assertTrue(is_refused(ConnectionRefusedError(), 0))
        self.assertTrue(is_refused(BrokenPipeError(), 0))
        self.assertFalse(is_refused(ConnectionResetError(), 0))

    def test_every_scenario_has_a_name_of_its_own(self):
        names = [each.name for each in SCENARIOS]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
