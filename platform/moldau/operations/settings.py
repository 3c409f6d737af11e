"""Settings of topics, brokers and groups: changes them, and rejects unknown names.

A cluster does not report unknown names: it describes only what it finds, unsets what is not set,
and keeps any setting of a broker, because a plugin may read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from moldau.client.admin.configs import Resource, ResourceType
from moldau.deferred import deferred_pattern
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

_OF_LISTENER: Final = deferred_pattern(r"listener\.name\.[^.]+\.")


async def change(
    admin: Admin,
    resource: Resource,
    set_to: Mapping[str, str] | None = None,
    unset: Iterable[str] = (),
    *,
    validate_only: bool = False,
) -> None:
    """Set and unset settings. Raise MoldauError for a name to unset that the resource has not."""
    unset = list(dict.fromkeys(unset))
    await check_known(admin, resource, unset)
    await admin.alter_configs(resource, set_to=set_to, unset=unset, validate_only=validate_only)


async def check_known(admin: Admin, resource: Resource, names: Iterable[str]) -> None:
    """Raise MoldauError for names that are neither settings of the resource nor set on it."""
    names = list(names)
    if not names:
        return
    there = {each.name for each in await admin.describe_configs(resource)}
    known = there | await known_names(admin, resource)
    missing = [name for name in names if name not in known]
    if missing:
        raise MoldauError(no_setting(resource, missing, known))


async def check_settable(admin: Admin, resource: Resource, names: Iterable[str]) -> None:
    """Raise MoldauError for names that a broker does not know, and would keep for plugins. Other
    resources reject those."""
    if resource.type is not ResourceType.BROKER:
        return
    known = await known_names(admin, resource)
    unknown = [
        name for name in names if name not in known and _OF_LISTENER.sub("", name) not in known
    ]
    if unknown:
        raise MoldauError(
            f"{no_setting(resource, unknown, known)}; --force sets it for a plugin that reads it"
        )


async def known_names(admin: Admin, resource: Resource) -> set[str]:
    """Return the names of the settings that the resource may have. The description of all brokers
    lists only what is set, so one broker is described instead. Settings of plugins have no
    documentation."""
    if resource.type is ResourceType.BROKER and not resource.name:
        brokers = (await admin.describe_cluster()).brokers
        resource = resource._replace(name=str(brokers[0].node_id))
    entries = await admin.describe_configs(resource, documentation=True)
    return {each.name for each in entries if each.documentation or not each.is_dynamic}


def no_setting(resource: Resource, names: Iterable[str], known: Collection[str]) -> str:
    """Return an error text for these unknown names, as one line."""
    place = f"{resource.type.name.lower().replace('_', '-')} {resource.name or 'default'}"
    return "; ".join(f"{place} has no setting {name}{_hint(name, known)}" for name in names)


def _hint(name: str, known: Collection[str]) -> str:
    """Suggest a known name: one that ends with this name, as the broker's default of a topic
    setting does, or a similar one."""
    from difflib import get_close_matches

    near = sorted((each for each in known if each.endswith(f".{name}")), key=len)
    near += get_close_matches(name, sorted(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
