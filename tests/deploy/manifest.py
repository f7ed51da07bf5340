# SPDX-License-Identifier: Apache-2.0
"""Rendered objects of Kubernetes, and functions to read them."""

from dataclasses import dataclass

import yaml

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass
class Template:
    """A pod as a workload makes it."""
    name: str  # "Deployment lockstep"
    labels: dict
    pod: dict  # Its spec.
    claims: set  # The names of the volumes that a StatefulSet makes for each pod.

    def containers(self):
        return self.pod.get("initContainers", []) + self.pod["containers"]

    def running(self, command):
        """Returns the containers, also sidecars, that run `lockstep COMMAND`."""
        return [each for each in self.containers() if each.get("args", [""])[0] == command]

    def ours(self):
        return self.running("serve") + self.running("worker")


class Manifest:
    def __init__(self, objects, folders=()):
        self.objects = objects
        self.folders = set(folders)  # "workers", "tls": the parts of an overlay, and itself.

    @staticmethod
    def parse(text, folders=()):
        return Manifest([each for each in yaml.safe_load_all(text) if each], folders)

    @staticmethod
    def name(thing):
        return f"{thing['kind']} {thing['metadata']['name']}"

    def of_kind(self, *kinds):
        return [each for each in self.objects if each["kind"] in kinds]

    def templates(self):
        found = []
        for each in self.of_kind("Deployment", "StatefulSet", "LeaderWorkerSet"):
            group = each["spec"].get("leaderWorkerTemplate")
            for key in ("leaderTemplate", "workerTemplate") if group else ("template",):
                template = (group or each["spec"])[key]
                claims = {claim["metadata"]["name"]
                          for claim in each["spec"].get("volumeClaimTemplates", [])}
                found.append(Template(self.name(each), template["metadata"]["labels"],
                                      template["spec"], claims))
        return found

    def running(self, command):
        """Returns (template, container) of each container that runs `lockstep COMMAND`."""
        return [(template, container) for template in self.templates()
                for container in template.running(command)]

    def ours(self):
        return self.running("serve") + self.running("worker")

    def config(self, name):
        return next((each["data"] for each in self.of_kind("ConfigMap")
                     if each["metadata"]["name"] == name), {})

    def variables(self, container):
        """Returns a container's environment; values that only a cluster knows are empty."""
        variables = {}
        for source in container.get("envFrom", []):
            variables.update(self.config(source["configMapRef"]["name"]))
        variables.update({each["name"]: each.get("value", "") for each in container.get("env", [])})
        return variables


def selects(selector, labels):
    """True if a selector of labels, which may be empty, matches these labels."""
    if selector is None or set(selector) - {"matchLabels", "matchExpressions"}:
        raise ValueError(f"not a selector: {selector}")
    return (all(labels.get(key) == value
                for key, value in selector.get("matchLabels", {}).items()) and
            all(each["operator"] == "In" and labels.get(each["key"]) in each["values"]
                for each in selector.get("matchExpressions", [])))


def container_ports(container):
    return {port["name"]: port["containerPort"] for port in container.get("ports", [])}


def probes(container, kind):
    """Returns (name, action) of each probe of a kind: "httpGet" or "grpc"."""
    return [(name, container[name][kind]) for name in PROBES if kind in container.get(name, {})]


def folders_of(overlay):
    """Returns the names of an overlay's folder and of all folders that it is made from."""
    part = yaml.safe_load((overlay / "kustomization.yaml").read_text())
    names = {overlay.name}
    for each in part.get("resources", []) + part.get("components", []):
        if (overlay / each).is_dir():
            names |= folders_of((overlay / each).resolve())
    return names
