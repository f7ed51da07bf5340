# SPDX-License-Identifier: Apache-2.0
"""Rules of Pod Security, plaintext and keys."""

from manifest import probes

# The volumes and kernel parameters that Pod Security "restricted" allows; `image` since 1.33.
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
           "persistentVolumeClaim", "projected", "secret"}
SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range",
           "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range",
           "net.ipv4.tcp_syncookies"}
RDMA = "rdma/hca"  # Its containers must pin memory, which "restricted" forbids.



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
            if not set(volume) - {"name"} <= VOLUMES:
                yield f"{name}: volume {volume['name']} is of a kind that is not allowed"
        for each in context.get("sysctls", []):
            if each["name"] not in SYSCTLS:
                yield f"{name}: {each['name']} is not allowed"
        for container in template.containers():
            own = container.get("securityContext", {})
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                yield f"{name}: {container['name']} may gain privileges"
            pins = RDMA in container.get("resources", {}).get("limits", {})
            kept = {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if pins else {})}
            if own.get("capabilities") != kept:
                yield f"{name}: {container['name']} must have the capabilities {kept}"
            if own.get("readOnlyRootFilesystem") is not True:
                yield f"{name}: {container['name']} may write to its root file system"
            if any("hostPort" in port for port in container.get("ports", [])):
                yield f"{name}: {container['name']} takes a port of the host"
    pins = any(RDMA in container.get("resources", {}).get("limits", {})
               for template in manifest.templates() for container in template.containers())
    level = "privileged" if pins else "restricted"
    enforced = [each["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce")
                for each in manifest.of_kind("Namespace")]
    if enforced != [level]:
        yield f"Namespace: must enforce Pod Security {level}, found {enforced}"


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


def certificates_have_the_coordinator_s_name(manifest, server):
    """Workers compare the name that they dial with the coordinator's certificate."""
    dialled = {manifest.variables(container).get("LOCKSTEP_COORDINATOR", "").rpartition(":")[0]
               for _, container in manifest.running("worker")}
    for each in manifest.of_kind("LeaderWorkerSet"):
        # A leader is NAME-GROUP.NAME.NAMESPACE.
        dialled.discard("$(LWS_LEADER_ADDRESS)")
        dialled.add(f"*.{each['metadata']['name']}.{each['metadata']['namespace']}")
    for template in manifest.templates():
        for container in template.running("serve"):
            if not manifest.variables(container).get("LOCKSTEP_CLUSTER_CERT"):
                continue
            mounted = {volume["secret"]["secretName"] for volume in template.pod["volumes"]
                       if "secret" in volume}
            named = {name for each in manifest.of_kind("Certificate")
                     if each["spec"]["secretName"] in mounted
                     for name in each["spec"].get("dnsNames", [])}
            if not dialled <= named:
                yield f"{template.name}: no certificate has the names {sorted(dialled - named)}"
    authorities = {each["spec"]["secretName"] for each in manifest.of_kind("Certificate")
                   if each["spec"].get("isCA")}
    issuers = {each["metadata"]["name"] for each in manifest.of_kind("Issuer")}
    for each in manifest.of_kind("Certificate"):
        if each["spec"]["issuerRef"]["name"] not in issuers:
            yield f"{manifest.name(each)}: there is no issuer {each['spec']['issuerRef']['name']}"
    for template in manifest.templates():
        for volume in template.pod.get("volumes", []):
            if volume.get("secret", {}).get("secretName") in authorities:
                yield f"{template.name}: a pod must not have the authority's key"


RULES = [pods_are_restricted, plaintext_is_meant, scrapes_show_a_key,
         certificates_have_the_coordinator_s_name]
