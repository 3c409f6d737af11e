"""Names a right that a command lacks: the user, the operation, and the question that explains it.

A cluster only says that something is not allowed. Which right an action takes is Kafka's, and
docs/security-rights.md has it by request.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from moldau.cli.command import Context
    from moldau.errors import MoldauError
    from moldau.errors.codes import KafkaError

E = TypeVar("E", bound="MoldauError")

_KINDS: Final = {
    "TOPIC_AUTHORIZATION_FAILED": ("topic", ("topic", "name")),
    "GROUP_AUTHORIZATION_FAILED": ("group", ("group", "group_id", "key", "name")),
    "CLUSTER_AUTHORIZATION_FAILED": ("cluster", ()),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        "transactional-id",
        ("transactional_id", "key", "name"),
    ),
}
"""By error: the kind of the resource, and the facts of the error that may have its name."""
_READERS: Final = ("list", "describe", "offsets", "status", "plan", "verify", "hanging", "features")
_OPERATIONS: Final[Mapping[str, str]] = {
    "consume": "READ",
    "produce": "WRITE",
    "config": "ALTER_CONFIGS",
    "config describe": "DESCRIBE_CONFIGS",
    "group delete": "DELETE",
    "group reset": "READ",
    "leader": "ALTER",
    "offsets": "DESCRIBE",
    "quota": "ALTER_CONFIGS",
    "quota list": "DESCRIBE_CONFIGS",
    "share delete": "DELETE",
    "share reset": "READ",
    "topic create": "CREATE",
    "topic delete": "DELETE",
    "topic trim": "DELETE",
    **dict.fromkeys(
        ("acl", "cluster", "quorum", "reassign", "topic alter", "txn", "user"), "ALTER"
    ),
}
"""The operation that a command, or one of its actions, takes. Other actions of `_READERS` take
DESCRIBE."""


def naming_right(error: E, arguments: Namespace, context: Context) -> E | KafkaError:
    """Return the error with the user, the right and the command that explains it, if it says that a
    right is missing and which one is known."""
    from moldau.cli.commands.cluster_connection import client_settings
    from moldau.errors.codes import KafkaError

    if not isinstance(error, KafkaError) or error.code.name not in _KINDS:
        return error
    kind, facts = _KINDS[error.code.name]
    operation = _operation(context.command, arguments)
    names = [error.context[each] for each in facts if error.context.get(each)]
    if operation is None or "client_settings" not in arguments or (facts and not names):
        return error
    if kind == "cluster" and context.command == "produce":
        operation = "IDEMPOTENT_WRITE"
    user = user_of(client_settings(arguments, context))
    place = f"{kind}:{names[0]}" if names else kind
    reason = (
        f"{user or 'the user'} has no right {operation} on {place}; "
        f"moldau acl explain {user or 'USER'} {operation} {place} says why"
    )
    return KafkaError(error.code, reason, **error.context)


def user_of(settings: Mapping[str, str]) -> str | None:
    """Return the user that client settings log in as; None if they do not name one."""
    from moldau.link.login.jaas import parse_jaas

    if not settings.get("security.protocol", "").upper().startswith("SASL"):
        return None
    jaas = settings.get("sasl.jaas.config")
    return (
        settings.get("sasl.username") if jaas is None else parse_jaas(jaas).options.get("username")
    )


def _operation(command: str, arguments: Namespace) -> str | None:
    action = getattr(arguments, "action", None)
    if command == "topic" and action == "alter" and getattr(arguments, "partitions", None) is None:
        return "ALTER_CONFIGS"
    known = _OPERATIONS.get(f"{command} {action}")
    if known is None and action in _READERS:
        return "DESCRIBE"
    return known or _OPERATIONS.get(command)
