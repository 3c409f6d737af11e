"""Changes of the registry: schemas are registered and deleted, compatibility levels are set.

A schema is checked before it is registered, and a deletion shown before it is made. Deletion is
soft: what was written with a schema can still be read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.serdes.registry.schemas import (
    AVRO,
    JSON,
    PROTOBUF,
    Compatibility,
    Config,
    RegistryError,
    Schema,
)
from moldau.console.access import SEEN
from moldau.console.changes import see
from moldau.console.connection import Connection
from moldau.console.previews import Effect, Form, Preview, check_typed, given, preview_page
from moldau.console.rendering import BadForm, Renderer, form_of
from moldau.console.roles import Role
from moldau.console.routes import NotAllowed, visitor_of
from moldau.console.schemas import LEVELS, as_it_is, latest_of, registry_of, version_of

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry

TYPES: Final = (AVRO, JSON, PROTOBUF)
_INVALID: Final = (409, 422)
_ALL: Final = "all"
_SOFT: Final = (
    "What was written with them can still be read by their ids, until `moldau schema delete {} "
    "--permanent` removes them for good."
)
_EARLIER: Final = "With all of the subject, that removes what was deleted before: version"


class SchemaChanges:
    """The endpoints that change the registry."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    def _registry(self) -> SchemaRegistry:
        return registry_of(self._connection)

    # Schemas

    async def new(self, request: Request) -> Response:
        """An empty form for the first schema of a subject."""
        self._registry()
        return self._form(request, {})

    async def plan_new(self, request: Request) -> Response:
        """Tell whether a schema can be registered."""
        form = await form_of(request)
        subject, schema = _named(form)
        registry = self._registry()
        try:
            versions = await _versions(registry, subject)
            found = await _judged(registry, subject, schema)
        except RegistryError as error:
            if error.status not in _INVALID:
                raise
            return self._form(request, form, problem=str(error))
        if found is not None and not found.is_compatible:
            told = "; ".join(found.messages) or "it is not compatible"
            return self._form(request, form, problem=f"It may not follow in {subject}: {told}")
        said = f"{subject} is a new subject."
        if versions:
            said = f"It may follow in {subject}, after version {versions[-1]}."
        return self._form(request, form, said=said)

    async def register_new(self, request: Request) -> Response:
        """Register the schema of the form, in a subject that it names."""
        form = await form_of(request)
        subject, schema = _named(form)
        try:
            await self._registry().register(subject, schema)
        except RegistryError as error:
            if error.status not in _INVALID:
                raise
            return self._form(request, form, problem=str(error))
        return see(_path(subject))

    async def register(self, request: Request) -> Response:
        """Register a schema as the next version of a subject, of the type that it has."""
        registry, name = self._registry(), request.path_params["name"]
        text = given(await form_of(request), "schema")
        latest = (await latest_of(registry, name)).schema
        await registry.register(name, Schema(text, latest.type, latest.references))
        return see(_path(name))

    def _form(
        self, request: Request, form: Mapping[str, str], problem: str = "", said: str = ""
    ) -> Response:
        return self._renderer.page(
            request, "schema_new.html", form=form, types=TYPES, problem=problem, said=said
        )

    # Levels

    async def plan_level(self, request: Request) -> Response:
        """Show what another compatibility level asks for."""
        subject, level = _level(await form_of(request))
        before = await self._level_of(subject)
        where = subject or "all subjects without a level of their own"
        effects = [
            Effect(kind, f"{where}: {each or 'as all others'}")
            for kind, each in (("gone", before), ("new", level))
        ]
        notes = (
            LEVELS.get(level, "The level of all others counts."),
            "Schemas that are registered already are not checked again.",
        )
        plan = Preview("Set the compatibility level", tuple(effects), notes)
        if before == level:
            plan = Preview(plan.title, (), ("It is so already.",))
        back = _path(subject) if subject else "/schemas"
        form = Form("/schema-level", back, {"subject": subject, "level": level})
        return preview_page(self._renderer, request, plan, form)

    async def set_level(self, request: Request) -> Response:
        """Set the level of a subject; of all, or of a context of them, for an admin alone."""
        subject, level = _level(await form_of(request))
        if not _is_one(subject) and not visitor_of(request).has(Role.ADMIN):
            raise NotAllowed("the level of all subjects, or of a context, is set by an admin")
        if level:
            await self._registry().set_config(Config(level), subject or None)
        else:
            await self._registry().delete_config(subject)
        return see(_path(subject) if subject else "/schemas")

    async def _level_of(self, subject: str) -> str:
        """Return the level that is set for a subject itself; empty if there is none."""
        try:
            return (await self._registry().config(subject or None)).compatibility or ""
        except RegistryError as error:
            if not error.is_of_record:
                raise
            return ""

    # Deletion

    async def plan_deletion(self, request: Request) -> Response:
        """Show the versions, and the settings of a subject, that a deletion takes away."""
        registry, name = self._registry(), request.path_params["name"]
        versions = sorted(await registry.versions(name))
        which = (await form_of(request)).get("version", _ALL)
        is_whole = which == _ALL
        chosen = versions if is_whole else [version_of(which, versions, versions[-1])]
        title = f"Delete {name}" if is_whole else f"Delete version {which}"
        form = Form(f"{_path(name)}/delete", _path(name), {"version": which, SEEN: _listed(chosen)})
        kept = await _referred_to(registry, name, chosen)
        if kept:
            return preview_page(self._renderer, request, Preview(title, (), tuple(kept)), form)
        found = [await as_it_is(registry, name, each) for each in chosen]
        gone = [f"{name}, version {each.version}, id {each.id}" for each in found]
        notes = [_SOFT.format(shlex.join([name, *([] if is_whole else ["--version", which])]))]
        if is_whole:
            gone += await self._settings_of(name)
            before = set(await registry.versions(name, deleted=True)) - set(versions)
            notes += [f"{_EARLIER} {_listed(before)}."] if before else []
        effects = tuple(Effect("gone", each) for each in gone)
        plan = Preview(title, effects, tuple(notes), typed=name)
        return preview_page(self._renderer, request, plan, form)

    async def _settings_of(self, subject: str) -> list[str]:
        """Return the settings of a subject itself, which go with all of its versions."""
        level = await self._level_of(subject)
        try:
            mode = await self._registry().mode(subject)
        except RegistryError as error:
            if not error.is_of_record:
                raise
            mode = ""
        own = (("compatibility level", level), ("mode", mode))
        return [f"{subject}, its {what} {value}" for what, value in own if value]

    async def delete(self, request: Request) -> Response:
        """Delete a version of a subject, or all. The form repeats the subject's name."""
        registry, name = self._registry(), request.path_params["name"]
        form = await form_of(request)
        check_typed(form, name)
        which, versions = form.get("version", _ALL), await registry.versions(name)
        if which == _ALL:
            if form.get(SEEN, _listed(versions)) != _listed(versions):
                raise BadForm(f"{name} has the versions {_listed(versions)} now: look at it again")
            await registry.delete_subject(name)
            return see("/schemas")
        await registry.delete_version(name, version_of(which, versions, versions[-1]))
        return see(_path(name) if len(versions) > 1 else "/schemas")


async def _referred_to(registry: SchemaRegistry, subject: str, versions: list[int]) -> list[str]:
    """Return a line for each version that others refer to: a registry deletes none of these."""
    lines = []
    for each in versions:
        ids = await registry.referenced_by(subject, each)
        named = [f"the schema with id {number}" for number in ids]
        if not subject.startswith(":."):  # an id alone is one of the default context
            places = [place for number in ids for place in await registry.schema_versions(number)]
            named = [f"{name} version {version}" for name, version in places] or named
        if named:
            told = f"Version {each} stays, because these refer to it: {', '.join(named)}."
            lines.append(f"{told} Delete them first.")
    return lines


def _listed(versions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(versions)))


def _path(subject: str) -> str:
    return f"/schemas/{quote(subject, safe='')}"


def _named(form: Mapping[str, str]) -> tuple[str, Schema]:
    """Return the subject and the schema of a form. Raise BadForm."""
    kind = form.get("type", AVRO)
    if kind not in TYPES:
        raise BadForm(f"type: {', '.join(TYPES)}")
    return given(form, "subject"), Schema(given(form, "schema"), kind)


def _level(form: Mapping[str, str]) -> tuple[str, str]:
    """Return the subject, empty for all, and the level of a form. Raise BadForm."""
    subject, level = form.get("subject", "").strip(), form.get("level", "")
    if level not in LEVELS and (level or not subject):
        raise BadForm(f"level: {', '.join(LEVELS)}")
    return subject, level


def _is_one(subject: str) -> bool:
    """Whether a name is that of one subject: `:.prod:` and `:.:` are contexts, `:*:` is all."""
    if subject.startswith((":.", ":*")):
        context, _, name = subject[1:].partition(":")
        return bool(name) and context != "*"
    return bool(subject)


async def _judged(registry: SchemaRegistry, subject: str, schema: Schema) -> Compatibility | None:
    """Return whether a schema may follow; None of a registry that judges no new subjects."""
    try:
        return await registry.is_compatible(subject, schema, None)
    except RegistryError as error:
        if not error.is_of_record:
            raise
        return None


async def _versions(registry: SchemaRegistry, subject: str) -> list[int]:
    try:
        return await registry.versions(subject)
    except RegistryError as error:
        if not error.is_of_record:
            raise
        return []
