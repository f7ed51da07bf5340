# SPDX-License-Identifier: Apache-2.0
"""Broken manifests: for each rule, changes to rendered overlays that it must find."""


def only(manifest, kind, name=None):
    found = [each for each in manifest.of_kind(kind)
             if name is None or each["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name)
    return found[0]


def spec(manifest, kind, name=None):
    return only(manifest, kind, name)["spec"]


def pod(manifest, kind="Deployment"):
    return spec(manifest, kind)["template"]["spec"]


def server(manifest):
    return pod(manifest)["containers"][0]


def worker(manifest):
    return pod(manifest, "StatefulSet")["containers"][0]


def variable(container, name):
    return next(each for each in container["env"] if each["name"] == name)


def volume(manifest, name):
    return next(each for each in pod(manifest)["volumes"] if each["name"] == name)


def config(manifest, beginning="lockstep-config"):
    return next(each["data"] for each in manifest.of_kind("ConfigMap")
                if each["metadata"]["name"].startswith(beginning))


def worker_config(manifest):
    return config(manifest, "lockstep-worker-config")


def monitor(manifest):
    return spec(manifest, "ServiceMonitor")


def policy(manifest, name):
    return spec(manifest, "NetworkPolicy", name)


OTHER = {"app.kubernetes.io/name": "another"}

def group(manifest):
    return spec(manifest, "LeaderWorkerSet")["leaderWorkerTemplate"]


def certificate(manifest, name):
    return spec(manifest, "Certificate", name)


def add(manifest, thing, **metadata):
    """Adds a copy of an object, with other metadata."""
    manifest.objects.append({**thing, "metadata": {**thing["metadata"], **metadata}})


# Each entry: rule, overlay, change.
BROKEN = [
    ("selectors_find_pods", "cpu",
     lambda m: only(m, "Service")["spec"].update(selector=OTHER)),
    ("selectors_find_pods", "cpu", lambda m: only(m, "Service")["spec"].update(selector={})),
    ("selectors_find_pods", "cpu",
     lambda m: only(m, "Deployment")["spec"].update(selector={"matchLabels": OTHER})),
    ("selectors_find_pods", "cpu", lambda m: policy(m, "lockstep-clients").update(
         podSelector={"matchLabels": OTHER})),
    ("selectors_find_pods", "single-node-full",
     lambda m: monitor(m).update(selector={"matchLabels": OTHER})),
    ("ports_have_listeners", "cpu", lambda m: config(m).update(LOCKSTEP_HTTP="0.0.0.0:8080")),
    ("ports_have_listeners", "cpu", lambda m: config(m).update(LOCKSTEP_HTTP="127.0.0.1:8000")),
    ("ports_have_listeners", "cpu", lambda m: config(m).update(LOCKSTEP_CLUSTER="0.0.0.0:50052")),
    ("ports_have_listeners", "cpu",
     lambda m: server(m)["livenessProbe"]["httpGet"].update(port=9000)),
    ("ports_have_listeners", "cpu",
     lambda m: only(m, "Service")["spec"]["ports"][0].update(targetPort="web")),
    ("ports_have_listeners", "single-node-full",
     lambda m: monitor(m)["endpoints"][0].update(port="metrics")),
    ("paths_are_served", "cpu",
     lambda m: server(m)["readinessProbe"]["httpGet"].update(path="/ready")),
    ("paths_are_served", "single-node-full",
     lambda m: monitor(m)["endpoints"][0].update(path="/prometheus")),
    ("arguments_are_in_help", "cpu", lambda m: server(m)["args"].append("--worker=2")),
    ("arguments_are_in_help", "cpu", lambda m: config(m).update(LOCKSTEP_WORKER="2")),
    ("pods_are_restricted", "cpu", lambda m: pod(m)["securityContext"].pop("runAsNonRoot")),
    ("pods_are_restricted", "cpu", lambda m: pod(m)["securityContext"].pop("seccompProfile")),
    ("pods_are_restricted", "cpu", lambda m: pod(m).update(hostNetwork=True)),
    ("pods_are_restricted", "cpu", lambda m: pod(m).pop("automountServiceAccountToken")),
    ("pods_are_restricted", "cpu",
     lambda m: pod(m)["volumes"].append({"name": "x", "hostPath": {"path": "/"}})),
    ("pods_are_restricted", "cpu",
     lambda m: server(m)["securityContext"].pop("allowPrivilegeEscalation")),
    ("pods_are_restricted", "cpu", lambda m: server(m)["securityContext"].pop("capabilities")),
    ("pods_are_restricted", "single-node-full",
     lambda m: pod(m)["initContainers"][0]["securityContext"].pop("readOnlyRootFilesystem")),
    ("pods_are_restricted", "cpu", lambda m: only(m, "Namespace")["metadata"].pop("labels")),
    ("drain_fits_the_grace", "cpu", lambda m: config(m).update(LOCKSTEP_DRAIN_SECONDS="130")),
    ("drain_fits_the_grace", "cpu", lambda m: pod(m).update(terminationGracePeriodSeconds=30)),
    ("names_are_there", "cpu",
     lambda m: server(m)["envFrom"][0]["configMapRef"].update(name="lockstep-config")),
    ("names_are_there", "cpu", lambda m: pod(m).update(serviceAccountName="other")),
    ("names_are_there", "cpu", lambda m: pod(m)["volumes"].clear()),
    ("names_are_there", "single-node",
     lambda m: m.objects.remove(only(m, "PersistentVolumeClaim"))),
    ("names_are_there", "single-node-full",
     lambda m: pod(m)["initContainers"][0]["env"][1]["valueFrom"]["secretKeyRef"].update(name="x")),
    ("folders_are_mounted", "cpu", lambda m: server(m)["volumeMounts"].clear()),
    ("folders_are_mounted", "single-node", lambda m: config(m).update(LOCKSTEP_MODEL="/model")),
    ("folders_are_mounted", "single-node",
     lambda m: config(m).update(LOCKSTEP_WEIGHT_CACHE="/models/cache")),
    ("folders_are_mounted", "single-node-full",
     lambda m: config(m).update(LOCKSTEP_TLS_KEY="/etc/tls.key")),
    ("folders_are_mounted", "single-node-full",
     lambda m: config(m).update(LOCKSTEP_API_KEYS="/etc/keys")),
    ("names_are_there", "single-node-full",
     lambda m: volume(m, "keys")["secret"].update(secretName="x")),
    ("scrapes_show_a_key", "single-node-full",
     lambda m: monitor(m)["endpoints"][0].pop("authorization")),
    ("scrapes_show_a_key", "single-node-full",
     lambda m: monitor(m)["endpoints"][0]["authorization"]["credentials"].update(name="x")),
    ("scrapes_show_a_key", "single-node-full", lambda m: config(m).pop("LOCKSTEP_API_KEYS")),
    ("plaintext_is_meant", "cpu", lambda m: config(m).pop("LOCKSTEP_INSECURE")),
    ("plaintext_is_meant", "single-node-full",
     lambda m: config(m).update(LOCKSTEP_INSECURE="http")),
    ("plaintext_is_meant", "single-node-full",
     lambda m: server(m)["livenessProbe"]["httpGet"].pop("scheme")),
    ("plaintext_is_meant", "single-node-full", lambda m: monitor(m)["endpoints"][0].pop("scheme")),
    ("workers_have_gpus", "single-node", lambda m: config(m).update(LOCKSTEP_WORKERS="8")),
    ("workers_have_gpus", "single-node", lambda m: config(m).update(LOCKSTEP_DEVICE="cpu")),
    ("requests_are_limits", "cpu", lambda m: server(m)["resources"]["limits"].pop("memory")),
    ("selectors_find_pods", "cpu-cluster",
     lambda m: spec(m, "PodDisruptionBudget").update(selector={"matchLabels": OTHER})),
    ("selectors_find_pods", "cpu-cluster", lambda m: pod(m, "StatefulSet")
     ["topologySpreadConstraints"][0].update(labelSelector={"matchLabels": OTHER})),
    ("ports_have_listeners", "cpu-cluster",
     lambda m: worker_config(m).update(LOCKSTEP_HEALTH="127.0.0.1:8081")),
    ("ports_have_listeners", "cpu-cluster",
     lambda m: variable(worker(m), "LOCKSTEP_DATA_LISTEN").update(value="$(POD_IP):8083")),
    ("paths_are_served", "cpu-cluster",
     lambda m: worker(m)["readinessProbe"]["grpc"].update(service="serving")),
    ("every_probe_is_set", "cpu", lambda m: server(m).pop("startupProbe")),
    ("every_probe_is_set", "cpu",
     lambda m: server(m)["readinessProbe"]["httpGet"].update(path="/livez")),
    ("every_probe_is_set", "cpu-cluster",
     lambda m: worker(m)["livenessProbe"]["grpc"].update(service="ready")),
    ("every_probe_is_set", "cpu-cluster",
     lambda m: worker(m)["livenessProbe"]["grpc"].update(port=8082)),
    ("pods_are_restricted", "cpu-cluster",
     lambda m: worker(m)["ports"][0].update(hostPort=8081)),
    ("drain_fits_the_grace", "cpu-cluster",
     lambda m: pod(m, "StatefulSet").update(terminationGracePeriodSeconds=5)),
    ("names_are_there", "cpu-cluster",
     lambda m: variable(worker(m), "LOCKSTEP_JOIN_TOKEN")["valueFrom"]["secretKeyRef"]
     .update(key="tokens")),
    ("names_are_there", "single-node-full",
     lambda m: volume(m, "keys")["secret"]["items"][0].update(key="key")),
    ("names_are_there", "single-node-full",
     lambda m: monitor(m)["endpoints"][0]["tlsConfig"]["ca"]["secret"].update(key="ca")),
    ("plaintext_is_meant", "cpu-cluster",
     lambda m: config(m).update(LOCKSTEP_INSECURE="http,grpc")),
    ("plaintext_is_meant", "cpu-cluster", lambda m: worker_config(m).pop("LOCKSTEP_INSECURE")),
    ("requests_are_limits", "cpu", lambda m: server(m)["resources"]["requests"].update(cpu="1")),
    ("requests_are_limits", "cpu-cluster", lambda m: worker(m)["resources"].pop("requests")),
    ("requests_are_limits", "cpu-cluster", lambda m: worker(m)["resources"]["limits"].pop("cpu")),
    ("workers_are_counted", "cpu-cluster", lambda m: spec(m, "StatefulSet").update(replicas=3)),
    ("workers_are_counted", "cpu-cluster",
     lambda m: spec(m, "StatefulSet").pop("podManagementPolicy")),
    ("workers_are_counted", "cpu-cluster",
     lambda m: worker(m)["env"].remove(variable(worker(m), "LOCKSTEP_HOST_NAME"))),
    ("workers_are_counted", "cpu-cluster",
     lambda m: variable(worker(m), "LOCKSTEP_RANK")["valueFrom"]["fieldRef"]
     .update(fieldPath="metadata.uid")),
    ("workers_find_the_coordinator", "cpu-cluster",
     lambda m: worker_config(m).update(LOCKSTEP_COORDINATOR="lockstep:50052")),
    ("workers_find_the_coordinator", "cpu-cluster",
     lambda m: worker_config(m).update(LOCKSTEP_COORDINATOR="coordinator:50052")),
    ("workers_find_the_coordinator", "cpu-cluster",
     lambda m: worker_config(m).update(LOCKSTEP_COORDINATOR="lockstep-coordinator:50051")),
    ("workers_find_the_coordinator", "cpu-cluster",
     lambda m: spec(m, "Service", "lockstep-coordinator").pop("publishNotReadyAddresses")),
    ("selectors_find_pods", "lws-full",
     lambda m: spec(m, "InferencePool")["selector"].update(matchLabels=OTHER)),
    ("ports_have_listeners", "lws-full",
     lambda m: spec(m, "InferencePool")["targetPorts"][0].update(number=8001)),
    ("ports_have_listeners", "lws", lambda m: group(m)["leaderTemplate"]["spec"]["initContainers"]
     [0]["ports"][1].update(containerPort=50052)),
    ("every_probe_is_set", "lws", lambda m: group(m)["leaderTemplate"]["spec"]["initContainers"]
     [0].pop("readinessProbe")),
    ("pods_are_restricted", "cuda",
     lambda m: worker(m)["securityContext"]["capabilities"].update(add=["IPC_LOCK"])),
    ("pods_are_restricted", "cuda-full",
     lambda m: worker(m)["resources"]["limits"].pop("rdma/hca")),
    ("pods_are_restricted", "cuda", lambda m: pod(m, "StatefulSet")["securityContext"]["sysctls"]
     [0].update(name="net.core.somaxconn")),
    ("names_are_there", "cuda-full",
     lambda m: m.objects.remove(only(m, "Certificate", "lockstep-worker"))),
    ("folders_are_mounted", "cuda-full",
     lambda m: worker_config(m).update(LOCKSTEP_CLUSTER_CA="/tls/ca.crt")),
    ("folders_are_mounted", "cuda-full",
     lambda m: worker_config(m).update(LOCKSTEP_WEIGHT_CACHE="/models/model")),
    ("plaintext_is_meant", "cuda-full",
     lambda m: worker_config(m).update(LOCKSTEP_INSECURE="cluster")),
    ("certificates_have_the_coordinator_s_name", "cuda-full",
     lambda m: certificate(m, "lockstep-coordinator").update(dnsNames=["lockstep"])),
    ("certificates_have_the_coordinator_s_name", "cuda-full",
     lambda m: volume(m, "cluster-tls")["secret"].update(secretName="lockstep-worker-tls")),
    ("certificates_have_the_coordinator_s_name", "cuda-full",
     lambda m: volume(m, "cluster-tls")["secret"].update(secretName="lockstep-cluster-ca")),
    ("certificates_have_the_coordinator_s_name", "cuda-full",
     lambda m: certificate(m, "lockstep-worker")["issuerRef"].update(name="other")),
    ("certificates_have_the_coordinator_s_name", "lws-full",
     lambda m: certificate(m, "lockstep-coordinator")["dnsNames"].pop()),
    ("workers_have_the_model", "lws-full", lambda m: group(m)["workerTemplate"]["spec"]
     ["volumes"][1]["image"].update(reference="registry.example/models/other:1")),
    ("workers_have_gpus", "multi-gpu-node", lambda m: worker_config(m).update(WORKERS="4")),
    ("workers_have_gpus", "cuda", lambda m: worker(m).update(image="lockstep:cpu")),
    ("workers_are_counted", "multi-gpu-node",
     lambda m: config(m).update(LOCKSTEP_WAIT_WORKERS="2")),
    ("workers_are_counted", "cuda", lambda m: config(m).update(LOCKSTEP_MIN_WORKERS="5")),
    ("workers_are_counted", "lws", lambda m: group(m).pop("restartPolicy")),
    ("workers_are_counted", "lws",
     lambda m: config(m).update(LOCKSTEP_WAIT_WORKERS="2") or group(m)["leaderTemplate"]["spec"]
     ["containers"][0]["env"].pop()),
    ("workers_are_counted", "spare",
     lambda m: spec(m, "StatefulSet").update(replicas=2)),
    ("workers_find_the_coordinator", "lws",
     lambda m: config(m).update(LOCKSTEP_CLUSTER="0.0.0.0:50053")),
    ("workers_have_the_model", "cuda",
     lambda m: worker(m)["volumeMounts"][0].update(mountPath="/model")),
    ("workers_have_the_model", "cuda", lambda m: volume(m, "model")["image"].update(
        reference="registry.example/models/other:1")),
    ("scalers_count_groups", "lws",
     lambda m: spec(m, "HorizontalPodAutoscaler")["scaleTargetRef"].update(name="lockstep")),
    ("scalers_count_groups", "lws", lambda m: spec(m, "LeaderWorkerSet").update(replicas=2)),
    ("scalers_count_groups", "lws",
     lambda m: spec(m, "HorizontalPodAutoscaler")["metrics"].pop()),
    ("scalers_count_groups", "lws",
     lambda m: spec(m, "HorizontalPodAutoscaler")["behavior"]["scaleDown"].update(
         stabilizationWindowSeconds=0)),
    ("scalers_count_groups", "lws", lambda m: add(
        m, only(m, "HorizontalPodAutoscaler"), name="second")),
    ("scalers_count_groups", "lws-full", lambda m: spec(m, "ScaledObject")["triggers"][0]
     ["metadata"].update(query='sum({__name__=~"lockstep:waiting"})')),
    ("pools_read_their_gauges", "lws-full",
     lambda m: config(m).pop("LOCKSTEP_METRICS_PREFIX")),
    ("pools_read_their_gauges", "lws-full",
     lambda m: spec(m, "HTTPRoute")["rules"][0]["backendRefs"][0].update(name="pool")),
    ("flows_are_the_table_s", "cpu", lambda m: m.objects.remove(
        only(m, "NetworkPolicy", "lockstep-deny"))),
    ("flows_are_the_table_s", "cpu",
     lambda m: policy(m, "lockstep-clients")["ingress"][0]["ports"].pop()),
    ("flows_are_the_table_s", "cpu",
     lambda m: policy(m, "lockstep-clients")["ingress"][0].pop("from")),
    ("flows_are_the_table_s", "cpu",
     lambda m: policy(m, "lockstep-clients").update(policyTypes=["Egress"])),
    ("flows_are_the_table_s", "cpu-cluster", lambda m: m.objects.remove(
        only(m, "NetworkPolicy", "lockstep-join"))),
    ("flows_are_the_table_s", "cpu-cluster",
     lambda m: policy(m, "lockstep-worker")["ingress"][0].pop("ports")),
    ("flows_are_the_table_s", "cpu-cluster",
     lambda m: policy(m, "lockstep-worker")["egress"][2]["to"][0].pop("podSelector")),
    ("flows_are_the_table_s", "cuda", lambda m: m.objects.remove(
        only(m, "NetworkPolicy", "lockstep-nccl"))),
    ("flows_are_the_table_s", "multi-gpu-node",
     lambda m: policy(m, "lockstep-worker")["ingress"][0]["ports"][0].pop("endPort")),
    ("objects_are_one_each", "cpu", lambda m: add(m, only(m, "Service"))),
    ("objects_are_one_each", "cpu-cluster", lambda m: add(
        m, only(m, "StatefulSet"), name="second")),
    ("objects_are_one_each", "cpu-cluster", lambda m: add(
        m, only(m, "PodDisruptionBudget"), name="second")),
    ("variables_are_set_before", "cpu-cluster", lambda m: worker(m)["env"].reverse()),
    ("variables_are_set_before", "cpu-cluster",
     lambda m: variable(worker(m), "LOCKSTEP_RANK").update(value="$(LWS_WORKER_INDEX)")),
    ("readiness_outlasts_the_grace", "cpu-cluster",
     lambda m: server(m)["readinessProbe"].update(failureThreshold=2)),
    ("readiness_outlasts_the_grace", "lws", lambda m: config(m).update(LOCKSTEP_GRACE_MS="20000")),
    ("readiness_outlasts_the_grace", "lws", lambda m: group(m)["leaderTemplate"][
        "spec"]["initContainers"][0]["readinessProbe"].update(failureThreshold=2)),
    ("arguments_are_in_help", "cpu-cluster",
     lambda m: worker_config(m).update(LOCKSTEP_HEALTH_PORT="8081")),
    ("arguments_are_in_help", "lws",
     lambda m: worker_config(m).update(LOCKSTEP_GRACE_MS="10000")),
]

# Each entry: kind of a custom resource, overlay, change of its first object.
BROKEN_CUSTOM = [
    ("LeaderWorkerSet", "lws",
     lambda x: x["spec"]["leaderWorkerTemplate"].update(restartPolicy="Never")),
    ("LeaderWorkerSet", "lws", lambda x: x["spec"].update(size=2)),
    ("InferencePool", "lws-full", lambda x: x["spec"].update(extensionRef={"name": "epp"})),
    ("InferencePool", "lws-full", lambda x: x["spec"]["endpointPickerRef"].pop("port")),
    ("HTTPRoute", "lws-full",
     lambda x: x["spec"]["rules"][0]["timeouts"].update(request="none")),
    ("HTTPRoute", "lws-full", lambda x: x["spec"]["rules"][0].update(backends=[])),
    ("ScaledObject", "lws-full", lambda x: x["spec"].update(maxReplicas=4)),
    ("ScaledObject", "lws-full", lambda x: x["spec"]["triggers"][0]["metadata"].pop("threshold")),
    ("ServiceMonitor", "cuda-full", lambda x: x["spec"]["endpoints"][0].update(scheme="tls")),
    ("ServiceMonitor", "cuda-full", lambda x: x["spec"].pop("selector")),
    ("Certificate", "cuda-full", lambda x: x["spec"].update(duration="10y")),
    ("Certificate", "cuda-full", lambda x: x["spec"].pop("issuerRef")),
    ("Issuer", "cuda-full", lambda x: x["spec"].clear()),
]
