# SPDX-License-Identifier: Apache-2.0
"""Schemas of objects: Kubernetes' own by kubernetes-validate, those of custom resources by
tests/data/crds."""

import copy

import yaml

KUBERNETES = ("1.29", "1.33", "1.37")
# Kubernetes knows image volumes since this version.
IMAGE_VOLUMES = "1.33"


def closed(schema):
    """Returns a schema in which no object has other properties than those it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        schema.update(type="object", additionalProperties=False)
    return schema


def read_custom(folder):
    """Returns {(apiVersion, kind): schema of its spec}."""
    files = [yaml.safe_load(file.read_text()) for file in folder.glob("*.yaml")]
    return {(each["apiVersion"], each["kind"]): closed(each["spec"]) for each in files}


def kubernetes_objects(manifest, custom):
    """Returns the objects that Kubernetes knows, with the pods that custom ones make."""
    objects = [each for each in manifest.objects
               if (each["apiVersion"], each["kind"]) not in custom]
    for template in manifest.templates():
        if template.name.startswith("LeaderWorkerSet"):
            objects.append({"apiVersion": "v1", "kind": "Pod",
                            "metadata": {"name": "pod", "labels": template.labels},
                            "spec": copy.deepcopy(template.pod)})
    return objects


def versions(manifest):
    images = any("image" in volume for template in manifest.templates()
                 for volume in template.pod.get("volumes", []))
    return [each for each in KUBERNETES if not images or each >= IMAGE_VOLUMES]


def custom_faults(thing, custom):
    """Returns what is wrong with a custom resource's spec."""
    from jsonschema import Draft202012Validator
    validator = Draft202012Validator(custom[thing["apiVersion"], thing["kind"]])
    faults = [f"{'/'.join(map(str, each.absolute_path))}: {each.message}"
              for each in validator.iter_errors(thing["spec"])]
    return faults + [f"unknown field {key}" for key in
                     set(thing) - {"apiVersion", "kind", "metadata", "spec"}]
