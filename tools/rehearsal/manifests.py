# SPDX-License-Identifier: Apache-2.0
"""Rendered objects of Kubernetes, and the values that pods get from them."""

import base64
import re

import yaml

UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
         "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Broken(Exception):
    """A manifest that no cluster could run; the message names the object."""


def quantity(text) -> float:
    """The number of a quantity such as 500m or 2Gi."""
    found = re.fullmatch(r"([0-9.]+)([mkMGT]|[KMGT]i)?", str(text))
    if not found:
        raise Broken(f"quantity: must be a number with a unit, found {text!r}")
    return float(found.group(1)) * UNITS[found.group(2) or ""]


def matches(selector: dict | None, labels: dict) -> bool:
    """True if the label selector matches; None matches nothing, {} everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    checks = {"In": lambda value, values: value in values,
              "NotIn": lambda value, values: value not in values,
              "Exists": lambda value, _: value is not None,
              "DoesNotExist": lambda value, _: value is None}
    return all(checks[each["operator"]](labels.get(each["key"]), each.get("values", []))
               for each in selector.get("matchExpressions", []))


class Manifest:
    def __init__(self, objects: list):
        self.objects = [each for each in objects if each]
        spaces = [each["metadata"].get("namespace") for each in self.objects]
        self.namespace = next((space for space in spaces if space), "default")

    @staticmethod
    def parse(text: str) -> "Manifest":
        return Manifest(list(yaml.safe_load_all(text)))

    def of_kind(self, kind: str) -> list:
        return [each for each in self.objects if each["kind"] == kind]

    def get(self, kind: str, name: str) -> dict:
        for each in self.of_kind(kind):
            if each["metadata"]["name"] == name:
                return each
        raise Broken(f"{kind} {name}: must exist, found none")

    def draw_secrets(self, value: str) -> None:
        """Replaces each REPLACE in the secrets by `value`."""
        for secret in self.of_kind("Secret"):
            for group in ("stringData", "data"):
                for key, old in secret.get(group, {}).items():
                    if old == "REPLACE":
                        secret["stringData"][key] = value

    def add(self, thing: dict) -> None:
        self.objects.append(thing)

    def namespace_labels(self) -> dict:
        """The labels of the manifest's namespace, with the one that Kubernetes adds."""
        found = [each for each in self.of_kind("Namespace")
                 if each["metadata"]["name"] == self.namespace]
        labels = found[0]["metadata"].get("labels", {}) if found else {}
        return {**labels, "kubernetes.io/metadata.name": self.namespace}

    def data(self, kind: str, name: str) -> dict:
        """Keys and values of a ConfigMap or a Secret, as bytes."""
        thing = self.get(kind, name)
        found = {key: str(value).encode() for key, value in thing.get("stringData", {}).items()}
        for key, value in (thing.get("data") or {}).items():
            found[key] = base64.b64decode(value) if kind == "Secret" else str(value).encode()
        return found

    def key(self, kind: str, reference: dict) -> str | None:
        """The value that a configMapKeyRef or a secretKeyRef names."""
        try:
            values = self.data(kind, reference["name"])
            if reference["key"] in values:
                return values[reference["key"]].decode()
            raise Broken(f"{kind} {reference['name']}: must have the key {reference['key']}, found "
                         f"{', '.join(values)}")
        except Broken:
            if reference.get("optional"):
                return None
            raise

    def environment(self, container: dict, fields: dict) -> dict:
        """A container's variables; `fields` are values of the downward API by path."""
        found = {}
        for source in container.get("envFrom", []):
            for kind, name in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                if name in source:
                    values = self.data(kind, source[name]["name"])
                    found.update({source.get("prefix", "") + key: value.decode()
                                  for key, value in values.items()})
        for each in container.get("env", []):
            value = self.value(each, container, fields)
            if value is not None:
                found[each["name"]] = expanded(value, found)
        return found

    def value(self, variable: dict, container: dict, fields: dict) -> str | None:
        source = variable.get("valueFrom")
        if source is None:
            return str(variable.get("value", ""))
        if "configMapKeyRef" in source:
            return self.key("ConfigMap", source["configMapKeyRef"])
        if "secretKeyRef" in source:
            return self.key("Secret", source["secretKeyRef"])
        if "resourceFieldRef" in source:
            group, name = source["resourceFieldRef"]["resource"].split(".", 1)
            amount = quantity(container["resources"][group][name])
            return str(round(amount / quantity(source["resourceFieldRef"].get("divisor", "1"))))
        path = source["fieldRef"]["fieldPath"]
        if path not in fields:
            raise Broken(f"fieldRef {path}: must be a field of the pod, found none")
        return fields[path]


def expanded(text: str, variables: dict) -> str:
    """The text with $(NAME) of earlier variables replaced; $$(NAME) stays as $(NAME)."""
    def one(found: re.Match) -> str:
        if found.group(0).startswith("$$"):
            return found.group(0)[1:]
        return variables.get(found.group(1), found.group(0))
    return re.sub(r"\$?\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", one, text)


def downward(pod: dict, address: str, node: str, node_address: str) -> dict:
    """The fields of a pod that its containers may read, by path."""
    meta = pod["metadata"]
    fields = {"metadata.name": meta["name"], "metadata.namespace": meta["namespace"],
              "metadata.uid": meta["uid"], "status.podIP": address, "status.podIPs": address,
              "status.hostIP": node_address, "spec.nodeName": node,
              "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default")}
    for group in ("labels", "annotations"):
        fields.update({f"metadata.{group}['{key}']": value
                       for key, value in (meta.get(group) or {}).items()})
    return fields


def port_number(port, containers: list) -> int:
    """The number of a port, which may be given by the name of a container's port."""
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for container in containers:
        for each in container.get("ports", []):
            if each.get("name") == port:
                return each["containerPort"]
    raise Broken(f"port {port}: must be the name of a container's port, found none")
