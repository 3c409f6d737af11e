"""Checks names of settings: rejects unknown ones without effect, and notes those that may have one.

A cluster does not report unknown names: it describes only what it finds, unsets what is not set,
and keeps any setting of a broker, because a plugin may read it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from moldau.errors import MoldauError

_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.")

if TYPE_CHECKING:
    from moldau.client import Admin, Resource


async def check_known(client: Admin, resource: Resource, names: Iterable[str]) -> None:
    """Raise MoldauError for names that are neither settings of the resource nor set on it."""
    names = list(names)
    if not names:
        return
    there = {each.name for each in await client.describe_configs(resource)}
    known = there | await known_names(client, resource)
    missing = [name for name in names if name not in known]
    if missing:
        raise MoldauError(no_setting(resource, missing, known))


async def notes_on_unknown(client: Admin, resource: Resource, names: Iterable[str]) -> list[str]:
    """Return a note for each name that a broker does not know; other resources reject those."""
    from moldau.client import ResourceType

    if resource.type is not ResourceType.BROKER:
        return []
    known = await known_names(client, resource)
    return [
        f"{name} is no setting of a broker's own: it is kept for plugins{_hint(name, known)}"
        for name in names
        if name not in known and _OF_LISTENER.sub("", name) not in known
    ]


async def known_names(client: Admin, resource: Resource) -> set[str]:
    """Return the names of the settings that the resource may have. The description of all brokers
    lists only what is set, so one broker is described instead. Settings of plugins have no
    documentation."""
    from moldau.client import ResourceType

    if resource.type is ResourceType.BROKER and not resource.name:
        brokers = (await client.describe_cluster()).brokers
        resource = resource._replace(name=str(brokers[0].node_id))
    entries = await client.describe_configs(resource, documentation=True)
    return {each.name for each in entries if each.documentation or not each.is_dynamic}


def no_setting(resource: Resource, names: Iterable[str], known: Collection[str]) -> str:
    """Return an error text for these unknown names, as one line."""
    whose = f"{resource.type.name.lower().replace('_', '-')} {resource.name or 'default'}"
    return "; ".join(f"{whose} has no setting {name}{_hint(name, known)}" for name in names)


def _hint(name: str, known: Collection[str]) -> str:
    """Suggest a known name: one that ends with this name, as the broker's default of a topic
    setting does, or a similar one."""
    from difflib import get_close_matches

    near = sorted((each for each in known if each.endswith(f".{name}")), key=len)
    near += get_close_matches(name, sorted(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
