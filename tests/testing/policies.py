"""What NetworkPolicies say about a connection: the rules of Kubernetes for `Ingress`, for policies
that select by labels. An unknown field is an error, so that none is passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

SPACE: Final = "shop"
"""The namespace of the policies."""

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Peer:
    """An end of a connection: a pod, or an address outside the cluster."""

    labels: tuple[tuple[str, str], ...] = ()
    space: str = SPACE
    is_outside: bool = False


def allows(policies: Iterable[Object], source: Peer, target: Peer, port: int) -> bool:
    """Whether a pod of the policies' namespace may be connected to at a port of its own. A pod that
    no policy selects may be; else one rule of one of them has to allow it."""
    specs = [each["spec"] for each in policies]
    assert all(each.keys() == {"podSelector", "policyTypes", "ingress"} for each in specs)
    assert all(each["policyTypes"] == ["Ingress"] for each in specs)
    chosen = [each for each in specs if _selects(each["podSelector"], target.labels)]
    rules = [rule for each in chosen for rule in each["ingress"]]
    return not chosen or any(_is_from(rule, source) and _is_to(rule, port) for rule in rules)


def _is_from(rule: Object, source: Peer) -> bool:
    """A rule without `from` is for all. One peer is enough, of which both selectors hold."""
    assert rule.keys() <= {"from", "ports"}
    return not rule.get("from") or any(_is_peer(each, source) for each in rule["from"])


def _is_peer(peer: Object, source: Peer) -> bool:
    assert peer.keys() <= {"podSelector", "namespaceSelector"}
    assert peer, "Kubernetes refuses a peer that says nothing"
    if source.is_outside:
        return False
    space = {"kubernetes.io/metadata.name": source.space}
    if "namespaceSelector" not in peer:
        is_near = source.space == SPACE
    else:
        is_near = _selects(peer["namespaceSelector"], tuple(space.items()))
    return is_near and _selects(peer.get("podSelector", {}), source.labels)


def _is_to(rule: Object, port: int) -> bool:
    ports = rule.get("ports")
    assert all(each.keys() <= {"port", "endPort"} for each in ports or ())
    return not ports or any(
        each["port"] <= port <= each.get("endPort", each["port"]) for each in ports
    )


def _selects(selector: Object, labels: tuple[tuple[str, str], ...]) -> bool:
    """An empty selector selects all."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    known = dict(labels)
    expressions = selector.get("matchExpressions", ())
    assert all(each["operator"] == "In" for each in expressions)
    return all(
        known.get(name) == value for name, value in selector.get("matchLabels", {}).items()
    ) and all(known.get(each["key"]) in each["values"] for each in expressions)
