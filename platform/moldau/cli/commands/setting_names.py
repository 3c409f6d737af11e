"""Unknown names of settings: refused where they have no effect, mentioned where they may.

A cluster is silent about them: it describes what it finds, unsets what is not set, and keeps for a
broker whatever its plugins may read.
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
    """MoldauError for names that are no settings of the resource's, and not set there either."""
    names = list(names)
    if not names:
        return
    there = {each.name for each in await client.describe_configs(resource)}
    known = there | await known_names(client, resource)
    missing = [name for name in names if name not in known]
    if missing:
        raise MoldauError(no_setting(resource, missing, known))


async def notes_on_unknown(client: Admin, resource: Resource, names: Iterable[str]) -> list[str]:
    """A line for each name that has no meaning for a broker itself; another resource refuses it."""
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
    """The names of settings that the resource can be given. The description of all brokers has only
    what is set, so one broker is asked. Settings of plugins are described without documentation."""
    from moldau.client import ResourceType

    if resource.type is ResourceType.BROKER and not resource.name:
        brokers = (await client.describe_cluster()).brokers
        resource = resource._replace(name=str(brokers[0].node_id))
    entries = await client.describe_configs(resource, documentation=True)
    return {each.name for each in entries if each.documentation or not each.is_dynamic}


def no_setting(resource: Resource, names: Iterable[str], known: Collection[str]) -> str:
    """What is wrong with these names, in one line."""
    whose = f"{resource.type.name.lower().replace('_', '-')} {resource.name or 'default'}"
    return "; ".join(f"{whose} has no setting {name}{_hint(name, known)}" for name in names)


def _hint(name: str, known: Collection[str]) -> str:
    """A topic's setting has its broker's default under the same name behind a word of its own."""
    from difflib import get_close_matches

    near = sorted((each for each in known if each.endswith(f".{name}")), key=len)
    near += get_close_matches(name, sorted(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
