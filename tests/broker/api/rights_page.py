"""docs/security-rights.md, made of the table of APIs; `python -m tests.broker.api.rights_page`
writes it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

from moldau.broker.api.handlers import APIS
from moldau.broker.api.rights.table import RIGHTS
from moldau.broker.api.row import BROKER, CONTROLLER, Api
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages import api as entry_of
from moldau.protocol.rights import Right

PAGE: Final = Path(__file__).parents[3] / "docs" / "security-rights.md"
NOTES: Final = {
    0: "WRITE on the transactional id only for records of a transaction",
    1: "CLUSTER_ACTION instead of READ for a follower",
    3: "topics without DESCRIBE are left out, or told as not allowed when they are named; a topic "
    "that is to be made takes CREATE on it or on the cluster",
    10: "DESCRIBE on what is looked for; the coordinator of a share partition takes CLUSTER_ACTION",
    16: "groups without DESCRIBE are left out; DESCRIBE on the cluster shows all",
    19: "on each topic, or on the cluster for all; DESCRIBE_CONFIGS on it shows its settings",
    20: "on each topic, or on the cluster for all; a topic without DESCRIBE is told as not "
    "allowed, whether it exists or not",
    22: "without a transactional id: IDEMPOTENT_WRITE on the cluster, or WRITE on some topic",
    23: "CLUSTER_ACTION instead of DESCRIBE for a follower",
    24: "CLUSTER_ACTION for the check of a broker in place of a client",
    27: "one of the two: brokers have the first, `kafka-transactions --abort` takes the second",
    32: "by the kind of resource: topic, group, else the cluster",
    33: "by the kind of resource: topic, group, else the cluster",
    38: "CREATE_TOKENS only for a token of another user",
    39: "only the owner and the renewers of the token",
    40: "only the owner and the renewers of the token",
    41: "none for tokens of one's own",
    44: "by the kind of resource: topic, group, else the cluster",
    60: "everyone at brokers, ALTER on the cluster at controllers; DESCRIBE on the cluster shows "
    "the allowed operations",
    66: "transactions without DESCRIBE are left out",
    88: "CREATE on each internal topic that is missing, or on the cluster for all",
}
"""What the table does not say, by API."""
_HEAD: Final = """\
# Rights by API

Which right each request of Kafka's protocol takes, if the node has an authorizer
([Access rules](security.md#access-rules)). Implied rights count: READ, WRITE, DELETE and ALTER
allow DESCRIBE, and ALTER_CONFIGS allows DESCRIBE_CONFIGS. Super users need none.

This page is made of the table that brokers and controllers check by; `python -m
tests.broker.api.rights_page` makes it anew. Its cases are compared with Apache Kafka's answers: no
right, each single right, DENY, a prefix and a wildcard.
"""


def render() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_by_api(), "", *_by_right(), ""])


def _by_api() -> list[str]:
    lines = [
        "## What a request takes",
        "",
        "| API | key | listeners | right | also | |",
        "|-|-|-|-|-|-|",
    ]
    for key, api in sorted(APIS.items()):
        if api.off is not None:
            continue
        rights = RIGHTS[key]
        also = ", ".join(map(_named, rights.also))
        right = "-" if rights.right is None else _named(rights.right)
        cells = (entry_of(key).name, key, _listeners(api), right, also, NOTES.get(key, ""))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _by_right() -> list[str]:
    found: dict[Right, list[str]] = defaultdict(list)
    for key, api in sorted(APIS.items()):
        for right in dict.fromkeys((RIGHTS[key].right, *RIGHTS[key].also)):
            if right is not None and api.off is None:
                found[right].append(entry_of(key).name)
    lines = ["## What a right is for", "", "| resource | operation | APIs |", "|-|-|-|"]
    for right, names in sorted(found.items()):
        resource, operation = _names(right)
        lines.append(f"| {resource} | {operation} | {', '.join(names)} |")
    return lines


def _listeners(api: Api) -> str:
    if api.listeners == BROKER:
        return "brokers"
    return "controllers" if api.listeners == CONTROLLER else "both"


def _named(right: Right) -> str:
    resource, operation = _names(right)
    return f"{operation} on {resource}"


def _names(right: Right) -> tuple[str, str]:
    name = right.resource.name.lower().replace("_", " ")
    return ("the cluster" if right.resource is AclResource.CLUSTER else name), right.operation.name


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
