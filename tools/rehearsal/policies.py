# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies as rules of nftables. A peer is anything with an address: a pod, a client, the
name server. Replies pass; packets of the side that opened a connection are always compared with
the current rules, so a new policy also ends open connections."""

import dataclasses

from manifests import Broken, matches, port_number


@dataclasses.dataclass
class Peer:
    name: str
    namespace: str
    labels: dict
    address: str
    namespace_labels: dict
    containers: list = dataclasses.field(default_factory=list)


def directions(policy: dict) -> list:
    return policy["spec"].get("policyTypes") or (
        ["Ingress"] + (["Egress"] if "egress" in policy["spec"] else []))


def selected(policy: dict, peer: Peer) -> bool:
    return (policy["metadata"]["namespace"] == peer.namespace and
            matches(policy["spec"].get("podSelector", {}), peer.labels))


def is_named(by: dict, policy: dict, peer: Peer) -> bool:
    """True if an entry of `from` or `to` without ipBlock names the peer."""
    if "namespaceSelector" in by:
        if not matches(by["namespaceSelector"], peer.namespace_labels):
            return False
    elif policy["metadata"]["namespace"] != peer.namespace:
        return False
    return matches(by.get("podSelector", {}), peer.labels)


def addresses(entry: list | None, policy: dict, peers: list) -> list | None:
    """Expressions of nftables for the entry's peers; None: any address."""
    if not entry:
        return None
    found = []
    for by in entry:
        if "ipBlock" in by:
            minus = "".join(f" ip {{0}} != {block}" for block in by["ipBlock"].get("except", []))
            found.append(f"ip {{0}} {by['ipBlock']['cidr']}{minus}")
        else:
            found += [f"ip {{0}} {peer.address}" for peer in peers if is_named(by, policy, peer)]
    return found


def ports(entry: list | None, containers: list) -> list:
    """Expressions of nftables for the entry's ports."""
    if not entry:
        return [""]
    found = []
    for each in entry:
        protocol = each.get("protocol", "TCP").lower()
        if "port" not in each:
            found.append(f"meta l4proto {protocol}")
            continue
        try:
            first = port_number(each["port"], containers)
        except Broken:
            continue  # This pod has no port of that name.
        last = f"-{each['endPort']}" if "endPort" in each else ""
        found.append(f"{protocol} dport {first}{last}")
    return found


def chain(direction: str, peer: Peer, policies: list, peers: list) -> list | None:
    """The rules for a peer's packets in one direction; None: no policy isolates it."""
    mine = [policy for policy in policies
            if direction in directions(policy) and selected(policy, peer)]
    if not mine:
        return None
    side, field = ("from", "saddr") if direction == "Ingress" else ("to", "daddr")
    rules = []
    for policy in mine:
        for rule in policy["spec"].get(direction.lower(), []) or []:
            named = addresses(rule.get(side), policy, peers)
            for target in ([""] if named is None else named):
                # The name of a port belongs to the pod that receives the packets.
                receivers = [peer] if direction == "Ingress" else [
                    each for each in peers if each.address in target.split()]
                held = [one for each in receivers for one in each.containers]
                rules += [" ".join(f"{target.format(field)} {port} return".split())
                          for port in ports(rule.get("ports"), held)]
    return sorted(set(rules)) + ["drop"]


def ruleset(policies: list, peers: list) -> str:
    """A table of nftables, which replaces the one before."""
    chains, jumps = [], []
    for direction, field in (("Egress", "saddr"), ("Ingress", "daddr")):
        for peer in peers:
            rules = chain(direction, peer, policies, peers)
            if rules is not None:
                name = f"{direction.lower()}_{peer.address.replace('.', '_')}"
                chains.append(f" chain {name} {{\n  " + "\n  ".join(rules) + "\n }")
                jumps.append(f"  ip {field} {peer.address} jump {name}")
    hooks = [f" chain {hook} {{\n  type filter hook {hook} priority 0; policy accept;\n"
             "  ct direction reply accept\n" + "\n".join(jumps) + "\n }"
             for hook in ("forward", "input")]
    return ("table ip policies\ndelete table ip policies\ntable ip policies {\n" +
            "\n".join(chains + hooks) + "\n}\n")
