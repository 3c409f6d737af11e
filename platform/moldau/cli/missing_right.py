"""Names a right that a command lacks: the user, the operation, and the question that explains it.

The error of a missing right has the API that was refused, and its code the kind of the resource.
Which operation the API needs of it is in `moldau.protocol.rights`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from moldau.cli.command import Context
    from moldau.cli.commands.cluster_connection import OpenClient
    from moldau.client import Admin
    from moldau.errors import MoldauError
    from moldau.errors.codes import KafkaError
    from moldau.protocol.acl_operations import AclResource

E = TypeVar("E", bound="MoldauError")

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "TOPIC": ("topic", "name"),
    "GROUP": ("group", "group_id", "key", "name"),
    "TRANSACTIONAL_ID": ("transactional_id", "key", "name"),
    "DELEGATION_TOKEN": ("token_id",),
    "USER": ("owner",),
}
"""By kind of resource: the facts of an error that may have its name. The cluster has none."""
_DEPTH: Final = 2
_EXPLAINED_BY: Final = "moldau acl explain"


def naming_right(error: E, arguments: Namespace, context: Context) -> E | KafkaError:
    """Return the error with the user, the right and the command that explains it, if it says that a
    right is missing and which one is known."""
    from moldau.cli.commands.cluster_connection import client_settings
    from moldau.errors.codes import KafkaError
    from moldau.operations.hidden import ExplainedRefusal
    from moldau.protocol.rights import missing_right

    if not isinstance(error, KafkaError) or "client_settings" not in arguments:
        return error
    if _EXPLAINED_BY in error.reason:  # it is named already
        return error
    right = missing_right(error.context.get("api", ""), error.code)
    place = None if right is None else _place(right.resource, error.context)
    if right is None or place is None:
        return error
    user = user_of(client_settings(arguments, context))
    words = f"{right.operation.name} {place}"
    reason = (
        f"{user or 'the user'} has no right {right.operation.name} on {place}; "
        f"{_EXPLAINED_BY} {user or 'USER'} {words} says why"
    )
    if isinstance(error, ExplainedRefusal):
        reason = f"{error.reason}: {reason}"
    return KafkaError(error.code, reason, **error.context)


def warn_of_hidden(
    admin: OpenClient[Admin],
    context: Context,
    check: Callable[[Admin], Coroutine[Any, Any, None]],
) -> None:
    """Warn that topics may be missing from what follows if a check raises HiddenNames."""
    from moldau.cli.output import write_lines
    from moldau.errors.codes import KafkaError
    from moldau.operations.hidden import HiddenNames

    try:
        admin.run(check)
    except KafkaError as error:
        if not isinstance(error.__cause__ or error, HiddenNames):
            raise
        write_lines(context.err, [f"moldau: topics may be missing: {error}"])


def errors_in(result: object, depth: int = _DEPTH) -> Iterator[KafkaError]:
    """Yield the errors of an action's result: the result itself, values of a dict, elements of a
    list, and fields of a dataclass or a tuple, down to the errors in a part of such a part."""
    from moldau.errors.codes import KafkaError

    if isinstance(result, KafkaError):
        yield result
    parts: Iterable[object] = ()
    if depth and isinstance(result, dict):
        parts = result.values()
    elif depth and isinstance(result, list | tuple):
        parts = result
    elif depth and is_dataclass(result):
        parts = [getattr(result, each.name) for each in fields(result)]
    for part in parts:
        yield from errors_in(part, depth - 1)


def _place(resource: AclResource, facts: Mapping[str, object]) -> str | None:
    """Return the resource as `moldau acl` reads it; None if the facts do not name it."""
    kind = resource.name.lower().replace("_", "-")
    if resource.name == "CLUSTER":
        return kind
    names = (facts.get(each) for each in _NAMES[resource.name])
    return next((f"{kind}:{name}" for name in names if name), None)


def user_of(settings: Mapping[str, str]) -> str | None:
    """Return the user that client settings log in as; None if they do not name one."""
    from moldau.link.login.jaas import parse_jaas

    if not settings.get("security.protocol", "").upper().startswith("SASL"):
        return None
    jaas = settings.get("sasl.jaas.config")
    return (
        settings.get("sasl.username") if jaas is None else parse_jaas(jaas).options.get("username")
    )
