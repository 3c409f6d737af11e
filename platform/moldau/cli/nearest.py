"""Adds the nearest name to the error of an unknown topic or group: `did you mean orders?`"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.errors.codes import KafkaError

_LIST_S: Final = 2.0
_RATIO: Final = 0.6


async def naming_nearest(client: Any, errors: Iterable[KafkaError]) -> list[KafkaError]:
    """Return the errors; one that says that a topic or group does not exist gets the nearest name
    that the cluster has. `client` is an Admin, or a Consumer for topics alone."""
    known: dict[str, list[str]] = {}
    found = []
    for error in errors:
        kind, name = _unknown(error)
        if kind and kind not in known:
            known[kind] = await _names(client, kind)
        found.append(_with_nearest(error, kind, name, known[kind]) if kind else error)
    return found


def _unknown(error: KafkaError) -> tuple[str, str]:
    """Return `topic` or `group` and its name if the error says that it does not exist; else two
    empty texts."""
    from moldau.errors.codes import ErrorCode

    context = error.context
    kind = ""
    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        kind = "group"
    elif error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and "partition" not in context:
        kind = "topic"
    name = context.get(kind) or (context.get("name") if context.get("type") == kind else None)
    return (kind, name) if isinstance(name, str) else ("", "")


async def _names(client: Any, kind: str) -> list[str]:
    from moldau.cli.shell import within_or_later
    from moldau.client import Admin

    if kind == "topic":
        listed = getattr(client, "list_topics", None)
        return [each.name for each in (listed and await within_or_later(_LIST_S, listed())) or ()]
    if not isinstance(client, Admin):
        return []
    return [each.group_id for each in await within_or_later(_LIST_S, client.list_groups()) or ()]


def _with_nearest(error: KafkaError, kind: str, name: str, names: list[str]) -> KafkaError:
    from difflib import get_close_matches

    nearest = get_close_matches(name, names, n=1, cutoff=_RATIO)
    if not nearest or nearest[0] == name:
        return error
    reason = f"there is no {kind} {name}; did you mean {nearest[0]}?"
    return type(error)(error.code, reason, **error.context)
