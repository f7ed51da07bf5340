# SPDX-License-Identifier: Apache-2.0
"""Rules that every object, key and variable that a pod refers to exists."""

import re

SOURCES = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName"),
           "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName")}
CERTIFICATE_KEYS = {"tls.crt", "tls.key", "ca.crt"}


def keys_of(manifest, secrets):
    """Returns {(kind, name): keys}. SECRETS are those that the user makes."""
    keys = {(each["kind"], each["metadata"]["name"]):
            set(each.get("data", {})) | set(each.get("stringData", {}))
            for each in manifest.objects + secrets}
    for each in manifest.of_kind("Certificate"):
        keys["Secret", each["spec"]["secretName"]] = CERTIFICATE_KEYS
    return keys


def references(template):
    """Returns (kind, name, key or None) of each object that a pod refers to."""
    pod = template.pod
    yield "ServiceAccount", pod.get("serviceAccountName"), None
    yield "PriorityClass", pod.get("priorityClassName"), None
    for volume in pod.get("volumes", []):
        for source in SOURCES.keys() & volume.keys():
            kind, field = SOURCES[source]
            items = volume[source].get("items", [])
            for key in [item["key"] for item in items] or [None]:
                yield kind, volume[source][field], key
    for container in template.containers():
        for source in container.get("envFrom", []):
            yield "ConfigMap", source["configMapRef"]["name"], None
        for variable in container.get("env", []):
            for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
                if field in variable.get("valueFrom", {}):
                    reference = variable["valueFrom"][field]
                    yield kind, reference["name"], reference["key"]


def names_are_there(manifest, server):
    keys = keys_of(manifest, server.secrets)
    for template in manifest.templates():
        for kind, name, key in references(template):
            if (kind, name) not in keys:
                yield f"{template.name}: there is no {kind} {name}"
            elif key is not None and key not in keys[kind, name]:
                yield f"{template.name}: {kind} {name} has no key {key}"
        volumes = {volume["name"] for volume in template.pod.get("volumes", [])}
        volumes |= template.claims
        for container in template.containers():
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"{template.name}: there is no volume {mount['name']}"
    for monitor in manifest.of_kind("ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            shown = [endpoint.get("authorization", {}).get("credentials"),
                     endpoint.get("tlsConfig", {}).get("ca", {}).get("secret")]
            for each in filter(None, shown):
                if each["key"] not in keys.get(("Secret", each["name"]), ()):
                    yield f"{manifest.name(monitor)}: no secret {each['name']}, key {each['key']}"


def variables_are_set_before(manifest, server):
    """$(NAME) in a variable means one that is listed before it, or one of LeaderWorkerSet's."""
    for template in manifest.templates():
        for container in template.containers():
            before = set()
            for each in container.get("env", []):
                for name in re.findall(r"\$\((\w+)\)", each.get("value", "")):
                    of_group = name.startswith("LWS_") and template.name.startswith("LeaderWorker")
                    if name not in before and not of_group:
                        yield f"{template.name}: {each['name']}: {name} is not set before it"
                before.add(each["name"])


RULES = [names_are_there, variables_are_set_before]
