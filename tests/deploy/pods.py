# SPDX-License-Identifier: Apache-2.0
"""Rules by which pods, services and the server fit each other.

A rule is a function of a Manifest and a Server that returns findings, one line each."""

from manifest import container_ports, probes, selects


GRACE_TO_END_S = 10
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PICKER = {"llm-d-router-gateway": "lockstep-epp"}  # The pods of llm-d's chart.


def selectors_find_pods(manifest, server):
    """Each selector finds pods. Only that of a NetworkPolicy may be empty: it then selects all."""
    labels = [template.labels for template in manifest.templates()]
    for workload in manifest.of_kind("Deployment", "StatefulSet"):
        own = workload["spec"]["template"]["metadata"]["labels"]
        if not selects(workload["spec"]["selector"], own):
            yield f"{manifest.name(workload)}: its selector does not find its own pods"
    selectors = [(each, {"matchLabels": each["spec"].get("selector", {})})
                 for each in manifest.of_kind("Service")]
    selectors += [(each, each["spec"]["selector"]) for each in
                  manifest.of_kind("PodDisruptionBudget", "InferencePool")]
    for each, selector in selectors:
        if not any(selector.values()) or not any(selects(selector, own) for own in labels):
            yield f"{manifest.name(each)}: no pod has the labels of its selector"
    labels.append(PICKER)
    for policy in manifest.of_kind("NetworkPolicy"):
        if not any(selects(policy["spec"]["podSelector"], own) for own in labels):
            yield f"{manifest.name(policy)}: no pod has the labels of its selector"
    for template in manifest.templates():
        for spread in template.pod.get("topologySpreadConstraints", []):
            if not selects(spread["labelSelector"], template.labels):
                yield f"{template.name}: its topology spread does not count its own pods"
    services = [each["metadata"].get("labels", {}) for each in manifest.of_kind("Service")]
    for monitor in manifest.of_kind("ServiceMonitor"):
        if sum(selects(monitor["spec"]["selector"], each) for each in services) != 1:
            yield f"{manifest.name(monitor)}: must select one service"


def listening_ports(container, manifest):
    """The ports on which a container listens for other hosts, according to its variables."""
    variables = manifest.variables(container)
    for name in ("LOCKSTEP_HTTP", "LOCKSTEP_GRPC", "LOCKSTEP_CLUSTER", "LOCKSTEP_ADMIN",
                 "LOCKSTEP_HEALTH", "LOCKSTEP_DATA_LISTEN"):
        host, _, port = variables.get(name, "").rpartition(":")
        if port and host not in LOOPBACK:
            yield int(port)
    # launch.sh of multi-gpu-node gives each worker a port. The container lists only the first one.
    if "DATA_PORT" in variables:
        yield int(variables["DATA_PORT"])


def ports_have_listeners(manifest, server):
    known = set()
    for template in manifest.templates():
        taken = []
        for container in template.ours():
            listens = set(listening_ports(container, manifest))
            ports = container_ports(container)
            known |= set(ports) | set(ports.values())
            taken += ports.values()
            for name, port in ports.items():
                if port not in listens:
                    yield f"{template.name}: nothing listens on its port {name}, {port}"
            for port in listens - set(ports.values()):
                yield f"{template.name}: it listens on {port}, not one of its ports"
            for probe, action in probes(container, "httpGet") + probes(container, "grpc"):
                if action["port"] not in set(ports) | set(ports.values()):
                    yield f"{template.name}: {probe} asks on an unknown port"
        if len(taken) != len(set(taken)):
            yield f"{template.name}: two containers have the same port"
    names = set()
    for service in manifest.of_kind("Service"):
        for port in service["spec"]["ports"]:
            names.add(port.get("name"))
            if port.get("targetPort", port["port"]) not in known:
                yield f"{manifest.name(service)}: no container has its port {port['port']}"
    for monitor in manifest.of_kind("ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["port"] not in names:
                yield f"{manifest.name(monitor)}: no service has its port {endpoint['port']}"
    for pool in manifest.of_kind("InferencePool"):
        for port in pool["spec"]["targetPorts"]:
            if port["number"] not in known:
                yield f"{manifest.name(pool)}: no container has its port {port['number']}"


def paths_are_served(manifest, server):
    for template, container in manifest.running("serve"):
        for probe, get in probes(container, "httpGet"):
            if get["path"] not in server.paths:
                yield f"{template.name}: {probe}: the server has no {get['path']}"
    for template, container in manifest.running("worker"):
        for probe, call in probes(container, "grpc"):
            if call.get("service") not in server.health:
                yield f"{template.name}: {probe}: a worker has no service {call.get('service')}"
    for monitor in manifest.of_kind("ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["path"] not in server.paths:
                yield f"{manifest.name(monitor)}: the server has no {endpoint['path']}"


def every_probe_is_set(manifest, server):
    """Every container is probed at its own port: readiness asks whether it serves."""
    for template, container in manifest.ours():
        kind = "httpGet" if container in template.running("serve") else "grpc"
        found = dict(probes(container, kind))
        if len(found) != 3:
            yield f"{template.name}: must have three probes of kind {kind}, found {len(found)}"
        for probe, action in found.items():
            wanted = ("ready", "/readyz") if probe == "readinessProbe" else ("live", "/livez")
            if action.get("service", action.get("path")) not in wanted:
                yield f"{template.name}: {probe} asks for the wrong thing"
            health = manifest.variables(container).get("LOCKSTEP_HEALTH", "").rpartition(":")[2]
            if kind == "grpc" and str(action["port"]) != health:
                yield f"{template.name}: {probe} must ask at port {health}"


def arguments_are_in_help(manifest, server):
    for command, known in (("serve", server.serve), ("worker", server.worker)):
        for template, container in manifest.running(command):
            for argument in container.get("args", []):
                flag = argument.split("=")[0]
                if flag.startswith("-") and flag not in known.flags:
                    yield f"{template.name}: {command} has no {flag}"
            for variable in manifest.variables(container):
                if variable.startswith("LOCKSTEP_") and variable not in known.variables:
                    yield f"{template.name}: {command} reads no {variable}"


def drain_fits_the_grace(manifest, server):
    for template in manifest.templates():
        needed_s = GRACE_TO_END_S
        for container in template.running("serve"):
            command = container["lifecycle"]["preStop"]["exec"]["command"]
            if command[0] != "sleep":
                yield f"{template.name}: preStop must sleep, while services remove the pod"
            drain_s = int(manifest.variables(container)["LOCKSTEP_DRAIN_SECONDS"])
            needed_s = int(command[1]) + drain_s + GRACE_TO_END_S
        if template.pod.get("terminationGracePeriodSeconds", 30) < needed_s:
            yield f"{template.name}: terminationGracePeriodSeconds below {needed_s}"


def folders_are_mounted(manifest, server):
    """Files outside the image are on mounts, which are writable where the process writes."""
    for template, container in manifest.ours():
        variables = manifest.variables(container)
        wanted = [("/tmp", True)]
        for name in ("MODEL", "TLS_CERT", "TLS_KEY", "API_KEYS", "CLUSTER_CERT", "CLUSTER_KEY",
                     "CLUSTER_CA", "WEIGHT_CACHE"):
            path = variables.get(f"LOCKSTEP_{name}", "")
            if path.startswith("/"):
                wanted.append((path, name == "WEIGHT_CACHE"))
        for path, written in wanted:
            mounts = [mount for mount in container.get("volumeMounts", [])
                      if f"{path}/".startswith(mount["mountPath"] + "/")]
            if not mounts:
                yield f"{template.name}: {path} is on no volume"
            elif written and mounts[-1].get("readOnly"):
                yield f"{template.name}: {path} cannot be written"


def requests_are_limits(manifest, server):
    """Requests equal limits (class Guaranteed), so a full node evicts other pods first."""
    for template in manifest.templates():
        for container in template.containers():
            resources = container.get("resources", {})
            limits, requests = resources.get("limits", {}), resources.get("requests", {})
            if not {"cpu", "memory"} <= set(limits):
                yield f"{template.name}: {container['name']} must limit cpu and memory"
            if any(limits.get(key) != requests.get(key) for key in {**limits, **requests}
                   if key in requests or "/" not in key):
                yield f"{template.name}: {container['name']} requests not what it limits"


RULES = [selectors_find_pods, ports_have_listeners, paths_are_served, every_probe_is_set,
         arguments_are_in_help, drain_fits_the_grace, folders_are_mounted, requests_are_limits]
