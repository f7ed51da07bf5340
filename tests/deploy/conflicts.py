# SPDX-License-Identifier: Apache-2.0
"""Rules by which the objects of one overlay, or of two, do not conflict."""

from itertools import combinations

from manifest import selects

# The fields that Kubernetes refuses to change. A StatefulSet's claims are not compared: README.md
# says how weight-cache is added to one that exists.
FIXED = {
    "Deployment": [("spec", "selector")],
    "StatefulSet": [("spec", "selector"), ("spec", "serviceName"), ("spec", "podManagementPolicy")],
    "Service": [("spec", "clusterIP")],
    "PriorityClass": [("value",), ("preemptionPolicy",)],
    "PersistentVolumeClaim": [("spec", "accessModes"), ("spec", "storageClassName")],
}


def identity(thing):
    return thing["kind"], thing["metadata"].get("namespace", ""), thing["metadata"]["name"]


def objects_are_one_each(manifest, server):
    """No object is there twice, and no pod belongs to two workloads or two disruption budgets."""
    seen = set()
    for each in manifest.objects:
        if identity(each) in seen:
            yield f"{manifest.name(each)} is there twice"
        seen.add(identity(each))
    templates = manifest.templates()
    for workload in manifest.of_kind("Deployment", "StatefulSet"):
        for template in templates:
            if template.name != manifest.name(workload) and selects(workload["spec"]["selector"],
                                                                    template.labels):
                yield f"{manifest.name(workload)}: its selector finds pods of {template.name}"
    for template in templates:
        budgets = [each for each in manifest.of_kind("PodDisruptionBudget")
                   if selects(each["spec"]["selector"], template.labels)]
        if len(budgets) > 1:
            yield f"{template.name}: two disruption budgets have its pods"


def field(thing, path):
    for key in path:
        thing = thing.get(key, {})
    return thing


def overlays_follow_each_other(manifests):
    """One overlay can be applied after another: no field that is fixed would change."""
    for (first, one), (second, other) in combinations(sorted(manifests.items()), 2):
        there = {identity(each): each for each in one.objects}
        for each in other.objects:
            for path in FIXED.get(each["kind"], []):
                before = there.get(identity(each), each)
                if field(before, path) != field(each, path):
                    yield f"{first}, {second}: {other.name(each)}: {'.'.join(path)} differs"


RULES = [objects_are_one_each]
