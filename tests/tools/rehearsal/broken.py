#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Manifests with one fault each, every one of which makes tools/rehearse fail.

    tests/tools/rehearsal/broken.py [NAME...]

Runs real containers as root: a minute for each.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

SOURCE = Path(__file__).resolve().parents[3]
PATIENCE_S = 45


def first(objects: list, kind: str, name: str) -> dict:
    return next(each for each in objects
                if (each["kind"], each["metadata"]["name"]) == (kind, name))


def pod_of(objects: list, kind: str, name: str) -> dict:
    return first(objects, kind, name)["spec"]["template"]["spec"]


def worker(objects: list) -> dict:
    return pod_of(objects, "StatefulSet", "lockstep-worker")


def server(objects: list) -> dict:
    return pod_of(objects, "Deployment", "lockstep")


def probe_port(objects: list) -> None:
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        worker(objects)["containers"][0][name]["grpc"]["port"] = 8083


def probe_path(objects: list) -> None:
    server(objects)["containers"][0]["readinessProbe"]["httpGet"]["path"] = "/ready"


def selector(objects: list) -> None:
    labels = first(objects, "Service", "lockstep")["spec"]["selector"]
    labels["app.kubernetes.io/component"] = "server"


def target_port(objects: list) -> None:
    first(objects, "Service", "lockstep-coordinator")["spec"]["ports"][0]["targetPort"] = "http"


def variable(objects: list) -> None:
    for each in objects:
        if "LOCKSTEP_COORDINATOR" in each.get("data", {}):
            each["data"]["LOCKSTEP_COORDINATOR"] = "lockstep:50052"


def secret_key(objects: list) -> None:
    for each in worker(objects)["containers"][0]["env"]:
        if "secretKeyRef" in each.get("valueFrom", {}):
            each["valueFrom"]["secretKeyRef"]["key"] = "join-token"


def grace(objects: list) -> None:
    server(objects)["terminationGracePeriodSeconds"] = 1


def policy(objects: list) -> None:
    """Workers may not ask the name server."""
    rules = first(objects, "NetworkPolicy", "lockstep-worker")["spec"]["egress"]
    rules[:] = [rule for rule in rules if all(port["port"] != 53 for port in rule["ports"])]


def budget(objects: list) -> None:
    first(objects, "PodDisruptionBudget", "lockstep-worker")["spec"]["maxUnavailable"] = 2


def memory(objects: list) -> None:
    worker(objects)["containers"][0]["resources"]["limits"]["memory"] = "8Mi"


BROKEN = [  # A fault, the scenario that finds it, a part of its verdict.
    (probe_port, "start", "all pods ready: must happen"),
    (probe_path, "start", "all pods ready: must happen"),
    (selector, "start", "load: must get the undisturbed answers"),
    (target_port, "start", "all pods ready: must happen"),
    (variable, "start", "all pods ready: must happen"),
    (secret_key, "start", "must have the key join-token"),
    (grace, "roll-server", "preStop must end within the grace"),
    (policy, "start", "all pods ready: must happen"),
    (budget, "drain", "a budget must refuse"),
    (memory, "start", "all pods ready: must happen"),
]


def run(break_it, scenario: str, verdict: str, options: list) -> str:
    """An empty text if tools/rehearse finds the fault."""
    text = (SOURCE / "deploy/k8s/rendered/cpu-cluster.yaml").read_text()
    objects = [each for each in yaml.safe_load_all(text) if each]
    before = yaml.safe_dump_all(objects)
    break_it(objects)
    if yaml.safe_dump_all(objects) == before:
        return "the manifest is as before"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{break_it.__name__}.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        done = subprocess.run(
            [SOURCE / "tools/rehearse", file, "--scenario", scenario, "--patience",
             str(PATIENCE_S), "--folder", f"{folder}/run", *options],
            capture_output=True, text=True, check=False)
    if done.returncode != 1 or verdict not in done.stdout:
        return f"exit code {done.returncode}: {done.stdout[-1000:]} {done.stderr[-500:]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--image", help="NAME=NAME, as for tools/rehearse")
    arguments = parser.parse_args()
    options = ["--image", arguments.image] if arguments.image else []
    failed = 0
    for break_it, scenario, verdict in BROKEN:
        if arguments.names and break_it.__name__ not in arguments.names:
            continue
        problem = run(break_it, scenario, verdict, options)
        failed += bool(problem)
        print(f"{break_it.__name__:12} {'NOT FOUND: ' + problem if problem else 'found'}",
              flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
