# SPDX-License-Identifier: Apache-2.0
"""Rules by which workers make groups, and groups are scaled."""

import re

from pods import listening_ports

# The source of a worker's rank, by the kind of its workload.
RANKS = {"StatefulSet": "metadata.labels['apps.kubernetes.io/pod-index']",
         "LeaderWorkerSet": "$(LWS_WORKER_INDEX)"}


def workers_in(container, manifest):
    """Returns how many workers a container has: launch.sh starts $WORKERS."""
    variables = manifest.variables(container)
    if container["args"][0] == "worker":
        return int(variables.get("WORKERS", "1"))
    return 0 if "LOCKSTEP_WAIT_WORKERS" in variables else int(variables.get("LOCKSTEP_WORKERS", 1))


def workers_have_gpus(manifest, server):
    for template, container in manifest.ours():
        variables = manifest.variables(container)
        gpus = container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", "0")
        on_gpus = variables.get("LOCKSTEP_DEVICE", "").startswith("cuda") or "WORKERS" in variables
        wanted = str(workers_in(container, manifest) if on_gpus else 0)
        if gpus != wanted:
            yield f"{template.name}: must have {wanted} GPUs, one for each worker, found {gpus}"
        if gpus != "0" and not container["image"].endswith(":cuda"):
            yield f"{template.name}: its image has no CUDA"


def workers_are_counted(manifest, server):
    """A group has the workers that the coordinator waits for, and one more with a spare."""
    for workload in manifest.of_kind("StatefulSet"):
        template = next(each for each in manifest.templates()
                        if each.name == manifest.name(workload))
        count = workload["spec"].get("replicas", 1) * sum(
            workers_in(container, manifest) for container in template.running("worker"))
        for _, container in manifest.running("serve"):
            variables = manifest.variables(container)
            ranks = int(variables.get("LOCKSTEP_WAIT_WORKERS", "0"))
            spares = 1 if "spare" in manifest.folders else 0
            if count != ranks + spares:
                yield f"{manifest.name(workload)}: has {count} workers, not {ranks + spares}"
            if int(variables.get("LOCKSTEP_MIN_WORKERS", "1")) > ranks:
                yield f"{manifest.name(workload)}: LOCKSTEP_MIN_WORKERS must be {ranks} or fewer"
        if workload["spec"].get("podManagementPolicy") != "Parallel":
            yield f"{manifest.name(workload)}: all workers must start for one to be ready"
    for workload in manifest.of_kind("LeaderWorkerSet"):
        for _, container in manifest.running("serve"):
            if manifest.variables(container).get("LOCKSTEP_WAIT_WORKERS") != "$(LWS_GROUP_SIZE)":
                yield f"{manifest.name(workload)}: the coordinator must wait for the group's size"
        if workload["spec"]["leaderWorkerTemplate"].get("restartPolicy") != "None":
            yield f"{manifest.name(workload)}: a lost pod must not restart its group"
    for template, container in manifest.running("worker"):
        fields = {each["name"]: each.get("value") or
                  each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
                  for each in container.get("env", [])}
        if fields.get("LOCKSTEP_HOST_NAME") != "metadata.name":
            yield f"{template.name}: LOCKSTEP_HOST_NAME must be the pod's name"
        rank = fields.get("POD_INDEX" if "WORKERS" in manifest.variables(container)
                          else "LOCKSTEP_RANK")
        known = RANKS[template.name.split()[0]]
        if rank != known:
            yield f"{template.name}: the rank must be {known}, found {rank}"


def workers_find_the_coordinator(manifest, server):
    """LOCKSTEP_COORDINATOR is a service that has its port, also while no pod is ready."""
    services = {each["metadata"]["name"]: each["spec"] for each in manifest.of_kind("Service")}
    listening = {port for _, container in manifest.running("serve")
                 for port in listening_ports(container, manifest)}
    for template, container in manifest.running("worker"):
        host, _, port = manifest.variables(container)["LOCKSTEP_COORDINATOR"].rpartition(":")
        if host == "$(LWS_LEADER_ADDRESS)" and template.name.startswith("LeaderWorkerSet"):
            ports = listening  # A headless service, which LeaderWorkerSet makes.
        elif host not in services:
            yield f"{template.name}: there is no service {host}"
            continue
        else:
            ports = {each["port"] for each in services[host]["ports"]}
            if not services[host].get("publishNotReadyAddresses"):
                yield f"{template.name}: {host} must publish pods that are not ready"
        if int(port) not in listening & ports:
            yield f"{template.name}: nothing listens at {host}:{port}"


def readiness_outlasts_the_grace(manifest, server):
    """The server keeps requests while a lost worker returns, so services must keep its pod. That is
    ready if all its containers are."""
    for template, container in manifest.running("serve"):
        grace_s = int(manifest.variables(container).get("LOCKSTEP_GRACE_MS", "1500")) / 1000
        for each in template.containers():
            if "readinessProbe" not in each:
                continue
            probe = each["readinessProbe"]
            stays_s = probe["periodSeconds"] * (probe["failureThreshold"] - 1)
            if stays_s <= grace_s:
                yield (f"{template.name}: {each['name']}: must stay ready for more than {grace_s} "
                       f"s, found {stays_s}")


def volume_of(template, container, path):
    """Returns the source of the volume that is mounted at a path, or None."""
    for mount in container.get("volumeMounts", []):
        if f"{path}/".startswith(mount["mountPath"] + "/"):
            for volume in template.pod["volumes"]:
                if volume["name"] == mount["name"]:
                    return {key: value for key, value in volume.items() if key != "name"}
    return None


def workers_have_the_model(manifest, server):
    """A group's workers read the same files at the path that the coordinator sends."""
    for coordinator, serve in manifest.running("serve"):
        path = manifest.variables(serve).get("LOCKSTEP_MODEL", "")
        if path.startswith("/"):
            source = volume_of(coordinator, serve, path)
            for template, container in manifest.running("worker"):
                if volume_of(template, container, path) != source:
                    yield f"{template.name}: {path} must be the coordinator's volume"


def scalers_count_groups(manifest, server):
    """An autoscaler adds groups, by gauges that the server has; never ranks of a group."""
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in manifest.objects}
    scaled = []
    for scaler in manifest.of_kind("HorizontalPodAutoscaler", "ScaledObject"):
        name, spec = manifest.name(scaler), scaler["spec"]
        target = spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]
        scaled.append(target)
        if target not in by_name:
            yield f"{name}: there is no {' '.join(target)}"
        elif target[0] == "StatefulSet":
            yield f"{name}: it would scale the ranks of a group"
        elif "replicas" in by_name[target]["spec"]:
            yield f"{name}: its target's manifest sets replicas, too"
        names = [each["pods"]["metric"]["name"] for each in spec.get("metrics", [])]
        names = [each.removeprefix("lockstep_") for each in names]
        for trigger in spec.get("triggers", []):
            names += re.findall(r":(\w+)\"", trigger["metadata"]["query"])
        if sorted(names) != ["kv_cache_usage_perc", "num_requests_waiting"]:
            yield f"{name}: must ask for the queue and the pages, found {names}"
        if not set(names) <= server.metrics:
            yield f"{name}: the server has no {sorted(set(names) - server.metrics)}"
        behavior = spec.get("behavior") or spec.get("advanced", {}).get(
            "horizontalPodAutoscalerConfig", {}).get("behavior", {})
        if behavior.get("scaleDown", {}).get("stabilizationWindowSeconds", 0) < 300:
            yield f"{name}: must wait 300 s or more before it removes a group"
    if len(scaled) != len(set(scaled)):
        yield "two autoscalers have the same target"


def pools_read_their_gauges(manifest, server):
    """An endpoint picker reads vLLM's names, and the route leads to its pool."""
    pools = {each["metadata"]["name"]: each["spec"] for each in manifest.of_kind("InferencePool")}
    for _, container in manifest.running("serve") if pools else ():
        if manifest.variables(container).get("LOCKSTEP_METRICS_PREFIX") != "vllm":
            yield "InferencePool: LOCKSTEP_METRICS_PREFIX must be vllm"
    for route in manifest.of_kind("HTTPRoute"):
        for rule in route["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                ports = [each["number"] for each in pools.get(backend["name"], {}).get(
                    "targetPorts", [])]
                if backend.get("kind") != "InferencePool" or backend.get("port") not in ports:
                    yield f"{manifest.name(route)}: there is no pool {backend['name']} at its port"


RULES = [workers_have_gpus, workers_are_counted, workers_find_the_coordinator,
         readiness_outlasts_the_grace, workers_have_the_model, scalers_count_groups,
         pools_read_their_gauges]
