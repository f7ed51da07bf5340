# SPDX-License-Identifier: Apache-2.0
"""Rules that no schema has: the parts of our manifests fit each other and the server.

A rule is a function of a Manifest and a Server that returns findings, one line each."""

from manifest import container_ports, pod_labels, probes, selects

GRACE_TO_END_S = 10
# The user or cert-manager makes them: docs/deploy.md.
SECRETS = {"lockstep-tls", "lockstep-model-token", "lockstep-keys"}


def selectors_find_pods(manifest, server):
    labels = [pod_labels(workload) for workload in manifest.workloads()]
    for workload in manifest.workloads():
        wanted = workload["spec"]["selector"]["matchLabels"]
        if not selects(wanted, pod_labels(workload)):
            yield f"{manifest.name(workload)}: its selector does not find its own pods"
    for service in manifest.of_kind("Service"):
        if not any(selects(service["spec"].get("selector"), each) for each in labels):
            yield f"{manifest.name(service)}: no pod has the labels of its selector"
    for policy in manifest.of_kind("NetworkPolicy"):
        wanted = policy["spec"]["podSelector"].get("matchLabels")
        if not any(selects(wanted, each) for each in labels):
            yield f"{manifest.name(policy)}: no pod has the labels of its selector"
    services = [each["metadata"].get("labels", {}) for each in manifest.of_kind("Service")]
    for monitor in manifest.of_kind("ServiceMonitor"):
        wanted = monitor["spec"]["selector"].get("matchLabels")
        if not any(selects(wanted, each) for each in services):
            yield f"{manifest.name(monitor)}: no service has the labels of its selector"


def listening_ports(container, manifest):
    """The ports on which the server listens for other hosts, according to its variables."""
    variables = manifest.variables(container)
    for name in ("LOCKSTEP_HTTP", "LOCKSTEP_GRPC", "LOCKSTEP_CLUSTER", "LOCKSTEP_ADMIN"):
        host, _, port = variables.get(name, "").rpartition(":")
        if port and host not in ("127.0.0.1", "localhost", "[::1]"):
            yield int(port)


def ports_have_listeners(manifest, server):
    known = set()
    for workload in manifest.workloads():
        for container in manifest.servers(workload):
            listens = set(listening_ports(container, manifest))
            ports = container_ports(container)
            known |= set(ports) | set(ports.values())
            for name, port in ports.items():
                if port not in listens:
                    yield f"{manifest.name(workload)}: nothing listens on its port {name}, {port}"
            for port in listens - set(ports.values()):
                yield f"{manifest.name(workload)}: it listens on {port}, not one of its ports"
            for probe, get in probes(container):
                if get["port"] not in set(ports) | set(ports.values()):
                    yield f"{manifest.name(workload)}: {probe} asks on an unknown port"
    names = set()
    for service in manifest.of_kind("Service"):
        for port in service["spec"]["ports"]:
            names.add(port.get("name"))
            if port.get("targetPort", port["port"]) not in known:
                yield f"{manifest.name(service)}: no container has its port {port['port']}"
    for policy in manifest.of_kind("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            for port in rule.get("ports", []):
                if port["port"] not in known:
                    yield f"{manifest.name(policy)}: no container has its port {port['port']}"
    for monitor in manifest.of_kind("ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["port"] not in names:
                yield f"{manifest.name(monitor)}: no service has its port {endpoint['port']}"


def paths_are_served(manifest, server):
    for workload in manifest.workloads():
        for container in manifest.servers(workload):
            for probe, get in probes(container):
                if get["path"] not in server.paths:
                    yield f"{manifest.name(workload)}: {probe}: the server has no {get['path']}"
    for monitor in manifest.of_kind("ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["path"] not in server.paths:
                yield f"{manifest.name(monitor)}: the server has no {endpoint['path']}"


def arguments_are_in_help(manifest, server):
    for workload in manifest.workloads():
        for container in manifest.servers(workload):
            for argument in container.get("args", []):
                flag = argument.split("=")[0]
                if flag.startswith("-") and flag not in server.flags:
                    yield f"{manifest.name(workload)}: serve has no {flag}"
            for variable in manifest.variables(container):
                if variable not in server.variables:
                    yield f"{manifest.name(workload)}: serve reads no {variable}"


def pods_are_restricted(manifest, server):
    """Pods keep Pod Security "restricted", and cannot write their root file system."""
    for workload in manifest.workloads():
        name, pod = manifest.name(workload), workload["spec"]["template"]["spec"]
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
        for container in pod.get("initContainers", []) + pod["containers"]:
            own = container.get("securityContext", {})
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                yield f"{name}: {container['name']} may gain privileges"
            if own.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{name}: {container['name']} keeps capabilities"
            if own.get("readOnlyRootFilesystem") is not True:
                yield f"{name}: {container['name']} may write to its root file system"
    enforced = [each["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce")
                for each in manifest.of_kind("Namespace")]
    if enforced != ["restricted"]:
        yield "Namespace: Pod Security \"restricted\" is not enforced"


def drain_fits_the_grace(manifest, server):
    for workload in manifest.workloads():
        pod = workload["spec"]["template"]["spec"]
        for container in manifest.servers(workload):
            command = container["lifecycle"]["preStop"]["exec"]["command"]
            drain_s = int(manifest.variables(container)["LOCKSTEP_DRAIN_SECONDS"])
            needed_s = int(command[1]) + drain_s + GRACE_TO_END_S
            if command[0] != "sleep" or pod["terminationGracePeriodSeconds"] < needed_s:
                yield f"{manifest.name(workload)}: terminationGracePeriodSeconds below {needed_s}"


def names_are_there(manifest, server):
    """Every object that a pod refers to by kind and name exists."""
    there = {(each["kind"], each["metadata"]["name"]) for each in manifest.objects}
    there |= {("Secret", name) for name in SECRETS}
    for workload in manifest.workloads():
        pod = workload["spec"]["template"]["spec"]
        wanted = [("ServiceAccount", pod.get("serviceAccountName"))]
        for volume in pod.get("volumes", []):
            for kind, key, field in (("ConfigMap", "configMap", "name"),
                                     ("Secret", "secret", "secretName"),
                                     ("PersistentVolumeClaim", "persistentVolumeClaim",
                                      "claimName")):
                if key in volume:
                    wanted.append((kind, volume[key][field]))
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod.get("initContainers", []) + pod["containers"]:
            for source in container.get("envFrom", []):
                wanted.append(("ConfigMap", source["configMapRef"]["name"]))
            for variable in container.get("env", []):
                for key, reference in variable.get("valueFrom", {}).items():
                    kind = "Secret" if key == "secretKeyRef" else "ConfigMap"
                    wanted.append((kind, reference["name"]))
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"{manifest.name(workload)}: there is no volume {mount['name']}"
        for kind, name in wanted:
            if (kind, name) not in there:
                yield f"{manifest.name(workload)}: there is no {kind} {name}"


def folders_are_mounted(manifest, server):
    """The server's files outside its image are on mounts, which it may write if it must."""
    for workload in manifest.workloads():
        for container in manifest.servers(workload):
            variables = manifest.variables(container)
            wanted = [("/tmp", True)]
            for name, written in (("LOCKSTEP_MODEL", False), ("LOCKSTEP_TLS_CERT", False),
                                  ("LOCKSTEP_TLS_KEY", False), ("LOCKSTEP_API_KEYS", False),
                                  ("LOCKSTEP_WEIGHT_CACHE", True)):
                if variables.get(name, "").startswith("/"):
                    wanted.append((variables[name], written))
            for path, written in wanted:
                mounts = [mount for mount in container.get("volumeMounts", [])
                          if f"{path}/".startswith(mount["mountPath"] + "/")]
                if not mounts:
                    yield f"{manifest.name(workload)}: {path} is on no volume"
                elif written and mounts[-1].get("readOnly"):
                    yield f"{manifest.name(workload)}: {path} cannot be written"


def plaintext_is_meant(manifest, server):
    for workload in manifest.workloads():
        for container in manifest.servers(workload):
            name, variables = manifest.name(workload), manifest.variables(container)
            tls = bool(variables.get("LOCKSTEP_TLS_CERT"))
            if tls == bool(variables.get("LOCKSTEP_INSECURE")):
                yield f"{name}: must set either LOCKSTEP_TLS_CERT or LOCKSTEP_INSECURE"
            for probe, get in probes(container):
                if (get.get("scheme") == "HTTPS") != tls:
                    yield f"{name}: {probe} uses {get.get('scheme', 'HTTP')}, the server does not"
            for monitor in manifest.of_kind("ServiceMonitor"):
                for endpoint in monitor["spec"]["endpoints"]:
                    if (endpoint.get("scheme") == "https") != tls:
                        yield f"{manifest.name(monitor)}: must use the server's scheme"


def scrapes_show_a_key(manifest, server):
    """/metrics needs an API key if the server has keys."""
    for workload in manifest.workloads():
        for container in manifest.servers(workload):
            has_keys = bool(manifest.variables(container).get("LOCKSTEP_API_KEYS"))
            for monitor in manifest.of_kind("ServiceMonitor"):
                for endpoint in monitor["spec"]["endpoints"]:
                    shown = endpoint.get("authorization", {}).get("credentials", {}).get("name")
                    if has_keys and shown not in SECRETS:
                        yield f"{manifest.name(monitor)}: it must send a key from a secret"
                    if shown and not has_keys:
                        yield f"{manifest.name(monitor)}: it sends a key to a server without keys"


def workers_have_gpus(manifest, server):
    for workload in manifest.workloads():
        for container in manifest.servers(workload):
            variables = manifest.variables(container)
            limits = container.get("resources", {}).get("limits", {})
            workers = variables.get("LOCKSTEP_WORKERS", "1")
            gpus = limits.get("nvidia.com/gpu", "0")
            wanted = workers if variables.get("LOCKSTEP_DEVICE") == "cuda" else "0"
            if gpus != wanted:
                yield f"{manifest.name(workload)}: {workers} workers and {gpus} GPUs"
            if "memory" not in limits:
                yield f"{manifest.name(workload)}: must have a memory limit to plan with"


RULES = [selectors_find_pods, ports_have_listeners, paths_are_served, arguments_are_in_help,
         pods_are_restricted, drain_fits_the_grace, names_are_there, folders_are_mounted,
         plaintext_is_meant, scrapes_show_a_key, workers_have_gpus]
