# SPDX-License-Identifier: Apache-2.0
"""Rendered objects of Kubernetes, and functions to read them."""

import yaml


class Manifest:
    def __init__(self, objects):
        self.objects = objects

    @staticmethod
    def parse(text):
        return Manifest([each for each in yaml.safe_load_all(text) if each])

    @staticmethod
    def name(thing):
        return f"{thing['kind']} {thing['metadata']['name']}"

    def of_kind(self, kind):
        return [each for each in self.objects if each["kind"] == kind]

    def workloads(self):
        return self.of_kind("Deployment") + self.of_kind("StatefulSet")

    @staticmethod
    def servers(workload):
        """Returns the containers that run `lockstep serve`."""
        return [container for container in workload["spec"]["template"]["spec"]["containers"]
                if container.get("args", [""])[0] == "serve"]

    def variables(self, container):
        """Returns a container's environment, except values from secrets."""
        variables = {}
        for source in container.get("envFrom", []):
            for config in self.of_kind("ConfigMap"):
                if config["metadata"]["name"] == source["configMapRef"]["name"]:
                    variables.update(config["data"])
        variables.update({each["name"]: each.get("value", "") for each in container.get("env", [])})
        return variables


def pod_labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def selects(wanted, labels):
    """True if the selector has at least one label and matches these labels."""
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def container_ports(container):
    return {port["name"]: port["containerPort"] for port in container.get("ports", [])}


def probes(container):
    """Returns (name, httpGet) of each probe."""
    return [(name, container[name]["httpGet"])
            for name in ("startupProbe", "livenessProbe", "readinessProbe")]
