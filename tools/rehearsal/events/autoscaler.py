# SPDX-License-Identifier: Apache-2.0
"""The autoscalers HPA and KEDA: how many replicas the metrics of pods ask for."""

import math
import re

from manifests import Manifest, quantity

KINDS = ("HorizontalPodAutoscaler", "ScaledObject")
TOLERANCE = 0.1  # Kubernetes' default: smaller differences change nothing.
PREFIX = "lockstep_"  # The prefix of gauges' names in adapter-values.yaml.


def gauges(text: str) -> dict:
    """The values at /metrics by name, without the prefix of the server. Values of one name with
    different labels are added."""
    found: dict[str, float] = {}
    for name, value in re.findall(r"^(?:lockstep|vllm):(\w+)(?:\{[^}]*\})? (\S+)$", text, re.M):
        found[name] = found.get(name, 0.0) + float(value)
    return found


class Autoscaler:
    def __init__(self, thing: dict):
        spec = thing["spec"]
        self.target = spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]
        self.low = spec.get("minReplicas", spec.get("minReplicaCount", 1))
        self.high = spec.get("maxReplicas", spec.get("maxReplicaCount", 100))
        self.limits = {each["pods"]["metric"]["name"].removeprefix(PREFIX): quantity(
            each["pods"]["target"]["averageValue"]) for each in spec.get("metrics", [])}
        for trigger in spec.get("triggers", []):
            name = re.search(r":(\w+)\"", trigger["metadata"]["query"])[1]
            self.limits[name] = float(trigger["metadata"]["threshold"])

    @staticmethod
    def of(manifest: Manifest) -> "Autoscaler | None":
        found = [each for kind in KINDS for each in manifest.of_kind(kind)]
        return Autoscaler(found[0]) if found else None

    def desired(self, replicas: int, pods: list) -> int:
        """The number of replicas for these gauges of each pod."""
        counts = []
        for name, limit in self.limits.items():
            total = sum(each[name] for each in pods)
            ratio = total / (replicas * limit)
            counts.append(replicas if abs(ratio - 1) <= TOLERANCE else math.ceil(total / limit))
        return min(max(self.low, *counts), self.high)
