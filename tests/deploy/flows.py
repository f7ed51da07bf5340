# SPDX-License-Identifier: Apache-2.0
"""The rule that NetworkPolicies allow exactly the flows of the table in deploy/k8s/README.md.

A flow is (from, to, port, protocol). A flow between pods of the namespace needs two policies: an
egress rule for the sender, and an ingress rule for the receiver."""

import re

ANYWHERE = "anywhere"
# The peers of policies: labels of the namespace (None: ours) and of the pod.
PEERS = [
    ("coordinator", None, {"app.kubernetes.io/name": "lockstep",
                           "app.kubernetes.io/component": "coordinator"}),
    ("workers", None, {"lockstep-worker": "true"}),
    ("picker", None, {"llm-d-router-gateway": "lockstep-epp"}),
    ("clients", {"lockstep-clients": "true"}, {}),
    ("Prometheus", {"kubernetes.io/metadata.name": "monitoring"}, {}),
    ("name server", {"kubernetes.io/metadata.name": "kube-system"}, {"k8s-app": "kube-dns"}),
]
OURS = {name for name, namespace, _ in PEERS if namespace is None}


def peer_name(peer):
    namespace = peer.get("namespaceSelector")
    labels = (namespace.get("matchLabels") if namespace is not None else None,
              peer.get("podSelector", {}).get("matchLabels", {}))
    for name, of_namespace, of_pod in PEERS:
        if labels == (of_namespace, of_pod) and set(peer) <= {"namespaceSelector", "podSelector"}:
            return name
    return f"unknown peer {peer}"


def ports_of(rule):
    ports = set()
    for each in rule.get("ports", []):
        last = each.get("endPort", each["port"])
        ports |= {(port, each.get("protocol", "TCP")) for port in range(each["port"], last + 1)}
    return ports or {(0, "every port")}


def allowed(manifest):
    """Returns the flows that egress rules allow, and those that ingress rules allow."""
    sent, received = set(), set()
    for policy in manifest.of_kind("NetworkPolicy"):
        spec = policy["spec"]
        if spec["podSelector"] == {}:
            continue
        own = peer_name({"podSelector": spec["podSelector"]})
        for key, side in (("egress", sent), ("ingress", received)):
            for rule in spec.get(key, []):
                peers = [peer_name(each) for each in rule.get("to" if key == "egress" else "from",
                                                              [])] or [ANYWHERE]
                for peer in peers:
                    pair = (own, peer) if key == "egress" else (peer, own)
                    side |= {(*pair, *port) for port in ports_of(rule)}
    return sent, received


def read_table(page):
    """Returns (flow, where) of each row; WHERE is the folder that has the flow's policy."""
    section = page.split("## Network flows")[1].split("\n## ")[0]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or cells[0] in ("from", "---"):
            continue
        for first, last, protocol in re.findall(r"(\d+)(?:-(\d+))?(/UDP)?", cells[2]):
            rows += [((cells[0], cells[1], port, "UDP" if protocol else "TCP"), cells[3].strip("`"))
                     for port in range(int(first), int(last or first) + 1)]
    assert rows, "the page has no table of flows"
    return rows


def flows_are_the_table_s(manifest, server):
    denies = [each["spec"] for each in manifest.of_kind("NetworkPolicy")
              if each["spec"]["podSelector"] == {}]
    if denies != [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]:
        yield "one policy must deny all of the namespace's pods both directions"
    for policy in manifest.of_kind("NetworkPolicy"):
        spec = policy["spec"]
        if not {key.capitalize() for key in ("ingress", "egress") if key in spec} <= set(
                spec["policyTypes"]):
            yield f"{manifest.name(policy)}: a direction is not one of its policyTypes"
    sent, received = allowed(manifest)
    wanted = {flow for flow, where in server.flows if where in manifest.folders}
    for side, end, name in ((sent, 0, "sent"), (received, 1, "received")):
        needed = {flow for flow in wanted if flow[end] in OURS}
        for flow in sorted(side - needed):
            yield f"flow {flow}: may be {name}, but is not in the table"
        for flow in sorted(needed - side):
            yield f"flow {flow}: is in the table, but may not be {name}"


RULES = [flows_are_the_table_s]
