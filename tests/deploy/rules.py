# SPDX-License-Identifier: Apache-2.0
"""Rules by which manifests fit each other and the server.

A rule is a function of a Manifest and a Server that returns findings, one line each."""

from manifest import container_ports, probes, selects

GRACE_TO_END_S = 10
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEALTH_SERVICES = ("live", "ready")


def selectors_find_pods(manifest, server):
    """Each selector finds pods; only a policy's may be empty, which means all pods."""
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
            if call.get("service") not in HEALTH_SERVICES:
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
    for command, known in (("serve", server.serve),):
        for template, container in manifest.running(command):
            for argument in container.get("args", []):
                flag = argument.split("=")[0]
                if flag.startswith("-") and flag not in known.flags:
                    yield f"{template.name}: {command} has no {flag}"
            for variable in manifest.variables(container):
                if variable.startswith("LOCKSTEP_") and variable not in known.variables:
                    yield f"{template.name}: {command} reads no {variable}"


def pods_are_restricted(manifest, server):
    """Pods keep Pod Security "restricted", and cannot write their root file system."""
    for template in manifest.templates():
        name, pod = template.name, template.pod
        context = pod.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or context.get("runAsUser", 0) == 0:
            yield f"{name}: its pods may run as root"
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name}: no seccompProfile RuntimeDefault"
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(key):
                yield f"{name}: {key}"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{name}: its pods hold a token for Kubernetes"
        for volume in pod.get("volumes", []):
            if "hostPath" in volume:
                yield f"{name}: volume {volume['name']} is a path of the host"
        for container in template.containers():
            own = container.get("securityContext", {})
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                yield f"{name}: {container['name']} may gain privileges"
            if own.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{name}: {container['name']} keeps capabilities"
            if own.get("readOnlyRootFilesystem") is not True:
                yield f"{name}: {container['name']} may write to its root file system"
            if any("hostPort" in port for port in container.get("ports", [])):
                yield f"{name}: {container['name']} takes a port of the host"
    enforced = [each["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce")
                for each in manifest.of_kind("Namespace")]
    if enforced != ["restricted"]:
        yield "Namespace: Pod Security \"restricted\" is not enforced"


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
    """Files outside the image are on mounts, which may be written if they must."""
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


def plaintext_is_meant(manifest, server):
    """A port that others reach has a certificate, or is named in LOCKSTEP_INSECURE."""
    for template, container in manifest.ours():
        name, variables = template.name, manifest.variables(container)
        serves = container in template.running("serve")
        tls = bool(variables.get("LOCKSTEP_TLS_CERT"))
        insecure = {each for each in variables.get("LOCKSTEP_INSECURE", "").split(",") if each}
        wanted = {"http", "grpc"} if serves and not tls else set()
        joined = variables.get("LOCKSTEP_CLUSTER") if serves else True
        if joined and not variables.get("LOCKSTEP_CLUSTER_CERT"):
            wanted.add("cluster")
        if insecure != wanted:
            yield f"{name}: LOCKSTEP_INSECURE must be {sorted(wanted)}, found {sorted(insecure)}"
        for probe, get in probes(container, "httpGet"):
            if (get.get("scheme") == "HTTPS") != tls:
                yield f"{name}: {probe} uses {get.get('scheme', 'HTTP')}, the server does not"
        for monitor in manifest.of_kind("ServiceMonitor") if serves else ():
            for endpoint in monitor["spec"]["endpoints"]:
                if (endpoint.get("scheme") == "https") != tls:
                    yield f"{manifest.name(monitor)}: must use the server's scheme"


def scrapes_show_a_key(manifest, server):
    """/metrics needs an API key if the server has keys."""
    for _, container in manifest.running("serve"):
        has_keys = bool(manifest.variables(container).get("LOCKSTEP_API_KEYS"))
        for monitor in manifest.of_kind("ServiceMonitor"):
            for endpoint in monitor["spec"]["endpoints"]:
                shown = endpoint.get("authorization", {}).get("credentials", {}).get("name")
                if has_keys and shown != "lockstep-keys":
                    yield f"{manifest.name(monitor)}: it must send a key from a secret"
                if shown and not has_keys:
                    yield f"{manifest.name(monitor)}: it sends a key to a server without keys"


def requests_are_limits(manifest, server):
    """No pod takes what it did not ask for, so a full node evicts others first."""
    for template in manifest.templates():
        for container in template.containers():
            resources = container.get("resources", {})
            limits, requests = resources.get("limits", {}), resources.get("requests", {})
            if not {"cpu", "memory"} <= set(limits):
                yield f"{template.name}: {container['name']} must limit cpu and memory"
            if any(limits.get(key) != requests.get(key) for key in {**limits, **requests}
                   if key in requests or "/" not in key):
                yield f"{template.name}: {container['name']} requests not what it limits"


def workers_have_gpus(manifest, server):
    for template, container in manifest.ours():
        variables = manifest.variables(container)
        gpus = container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", "0")
        local = variables.get("LOCKSTEP_WORKERS", "1")
        if "LOCKSTEP_WAIT_WORKERS" in variables:
            local = "0"
        wanted = local if variables.get("LOCKSTEP_DEVICE", "").startswith("cuda") else "0"
        if gpus != wanted:
            yield f"{template.name}: must have {wanted} GPUs, one for each worker, found {gpus}"


def workers_are_counted(manifest, server):
    """The coordinator waits for all pods of workers; each is a host, and asks for a rank."""
    for workload in manifest.of_kind("StatefulSet"):
        for _, container in manifest.running("serve"):
            awaited = manifest.variables(container).get("LOCKSTEP_WAIT_WORKERS")
            if awaited != str(workload["spec"].get("replicas", 1)):
                yield f"{manifest.name(workload)}: the coordinator waits for {awaited} workers"
        if workload["spec"].get("podManagementPolicy") != "Parallel":
            yield f"{manifest.name(workload)}: all workers must start for one to be ready"
    for template, container in manifest.running("worker"):
        fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
                  for each in container.get("env", []) if "fieldRef" in each.get("valueFrom", {})}
        if fields.get("LOCKSTEP_HOST_NAME") != "metadata.name":
            yield f"{template.name}: LOCKSTEP_HOST_NAME must be the pod's name"
        if "LOCKSTEP_RANK" in fields and "-index'" not in fields["LOCKSTEP_RANK"]:
            yield f"{template.name}: LOCKSTEP_RANK must be the pod's index"


def workers_find_the_coordinator(manifest, server):
    """LOCKSTEP_COORDINATOR is a service that has its port, also while no pod is ready."""
    services = {each["metadata"]["name"]: each["spec"] for each in manifest.of_kind("Service")}
    listening = {port for _, container in manifest.running("serve")
                 for port in listening_ports(container, manifest)}
    for template, container in manifest.running("worker"):
        host, _, port = manifest.variables(container)["LOCKSTEP_COORDINATOR"].rpartition(":")
        service = services.get(host)
        if service is None:
            yield f"{template.name}: there is no service {host}"
            continue
        if not service.get("publishNotReadyAddresses"):
            yield f"{template.name}: {host} must publish pods that are not ready"
        if int(port) not in listening or int(port) not in [p["port"] for p in service["ports"]]:
            yield f"{template.name}: nothing listens at {host}:{port}"


RULES = [selectors_find_pods, ports_have_listeners, paths_are_served, every_probe_is_set,
         arguments_are_in_help, pods_are_restricted, drain_fits_the_grace, folders_are_mounted,
         plaintext_is_meant, scrapes_show_a_key, requests_are_limits, workers_have_gpus,
         workers_are_counted, workers_find_the_coordinator]
