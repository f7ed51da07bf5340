# SPDX-License-Identifier: Apache-2.0
"""Broken manifests: for each rule, changes to rendered overlays that it must find."""


def only(manifest, kind):
    found = manifest.of_kind(kind)
    assert len(found) == 1, kind
    return found[0]


def pod(manifest):
    return only(manifest, "Deployment")["spec"]["template"]["spec"]


def server(manifest):
    return pod(manifest)["containers"][0]


def volume(manifest, name):
    return next(each for each in pod(manifest)["volumes"] if each["name"] == name)


def config(manifest):
    return manifest.of_kind("ConfigMap")[0]["data"]


def monitor(manifest):
    return only(manifest, "ServiceMonitor")["spec"]


def policy(manifest):
    return manifest.of_kind("NetworkPolicy")[0]["spec"]


OTHER = {"app.kubernetes.io/name": "another"}

# Each entry: rule, overlay, change.
BROKEN = [
    ("selectors_find_pods", "cpu",
     lambda m: only(m, "Service")["spec"].update(selector=OTHER)),
    ("selectors_find_pods", "cpu", lambda m: only(m, "Service")["spec"].update(selector={})),
    ("selectors_find_pods", "cpu",
     lambda m: only(m, "Deployment")["spec"].update(selector={"matchLabels": OTHER})),
    ("selectors_find_pods", "cpu", lambda m: policy(m).update(podSelector={"matchLabels": OTHER})),
    ("selectors_find_pods", "single-node-full",
     lambda m: monitor(m).update(selector={"matchLabels": OTHER})),
    ("ports_have_listeners", "cpu", lambda m: config(m).update(LOCKSTEP_HTTP="0.0.0.0:8080")),
    ("ports_have_listeners", "cpu", lambda m: config(m).update(LOCKSTEP_HTTP="127.0.0.1:8000")),
    ("ports_have_listeners", "cpu", lambda m: config(m).update(LOCKSTEP_CLUSTER="0.0.0.0:50052")),
    ("ports_have_listeners", "cpu",
     lambda m: server(m)["livenessProbe"]["httpGet"].update(port=9000)),
    ("ports_have_listeners", "cpu",
     lambda m: only(m, "Service")["spec"]["ports"][0].update(targetPort="web")),
    ("ports_have_listeners", "cpu", lambda m: policy(m)["ingress"][0].update(ports=[{"port": 80}])),
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
    ("workers_have_gpus", "cpu", lambda m: server(m)["resources"]["limits"].pop("memory")),
]
