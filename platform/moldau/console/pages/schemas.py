"""Schemas of the registry: subjects, versions, what changed between two, and changes of them.

A schema is checked before it is registered, and a deletion shown before it is made. Deletion is
soft: what was written with a schema can still be read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.serdes.registry.schemas import (
    Compatibility,
    RegisteredSchema,
    RegistryError,
)
from moldau.console.access.roles import Role
from moldau.console.access.routes import NotAllowed, visitor_of
from moldau.console.access.visitor import SEEN
from moldau.console.connection import Connection
from moldau.console.pages.paging import paged
from moldau.console.pages.previews import Effect, Form, Preview, check_typed, given, preview_page
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see
from moldau.console.pages.texts import indented
from moldau.operations import schemas
from moldau.values.schema import AVRO, JSON, PROTOBUF, Schema

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

NO_REGISTRY: Final = (
    "Start the console with --registry URL to see the schemas of a registry; inside a broker that "
    "is moldau.console.registry=URL."
)
LEVELS: Final = {
    "NONE": "Any schema may follow: nothing is checked.",
    "BACKWARD": "A new schema has to read what the latest one has written.",
    "BACKWARD_TRANSITIVE": "A new schema has to read what all earlier ones have written.",
    "FORWARD": "The latest schema has to read what a new one writes.",
    "FORWARD_TRANSITIVE": "All earlier schemas have to read what a new one writes.",
    "FULL": "A new schema and the latest one have to read each other.",
    "FULL_TRANSITIVE": "A new schema and all earlier ones have to read each other.",
}
"""What each level asks of a schema that is registered from then on."""
_LINES_AROUND: Final = 3


class Line(NamedTuple):
    """A line of a comparison: `kind` is "gone", "new", "place" or empty."""

    kind: str
    text: str


class Schemas:
    """The endpoints about the registry."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    def _registry(self) -> SchemaRegistry:
        return registry_of(self._connection)

    async def all(self, request: Request) -> Response:
        """A page of the subjects whose names contain a text."""
        if self._connection.decoder is None:
            return self._renderer.absent(request, "Schemas", NO_REGISTRY)
        registry, text = self._registry(), request.query_params.get("q", "").strip()
        subjects = sorted(await registry.subjects())
        found = [each for each in subjects if text.lower() in each.lower()]
        return self._renderer.page(
            request,
            "schemas.html",
            part=paged(found, request.query_params.get("page")),
            text=text,
            config=await registry.config(),
            mode=await registry.mode(),
            levels=LEVELS,
        )

    async def subject(self, request: Request) -> Response:
        """One version of a subject, and what changed since the one before, or another."""
        return await self._subject(request, None, "")

    async def check(self, request: Request) -> Response:
        """Tell whether a schema may follow in a subject; register nothing."""
        text = (await form_of(request)).get("schema", "").strip()
        if not text:
            raise BadForm("schema: paste the text of the schema to check")
        registry, name = self._registry(), request.path_params["name"]
        latest = (await schemas.latest_version(registry, name)).schema
        given = Schema(text, latest.type, latest.references)
        return await self._subject(request, await registry.is_compatible(name, given, None), text)

    async def _subject(
        self, request: Request, checked: Compatibility | None, text: str
    ) -> Response:
        registry, name = self._registry(), request.path_params["name"]
        versions = sorted(await registry.versions(name))
        query = request.query_params
        number = version_of(query.get("version"), versions, versions[-1])
        earlier = [each for each in versions if each < number]
        other = version_of(query.get("against"), versions, earlier[-1] if earlier else number)
        found = await schemas.stored_version(registry, name, number)
        before = found if other == number else await schemas.stored_version(registry, name, other)
        return self._renderer.page(
            request,
            "schema.html",
            subject=name,
            base=f"/schemas/{quote(name, safe='')}",
            versions=versions,
            found=found,
            before=before,
            lines=difference(before, found),
            config=await registry.config(name, effective=True),
            mode=await registry.mode(name, effective=True),
            levels=LEVELS,
            references=await registry.referenced_by(name, number),
            checked=checked,
            text=text,
        )

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
            versions = await schemas.versions_of(registry, subject)
            found = await schemas.check_schema(registry, subject, schema)
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
        latest = (await schemas.latest_version(registry, name)).schema
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
        before = await schemas.level_of(self._registry(), subject or None) or ""
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
        await schemas.set_level(self._registry(), subject or None, level or None)
        return see(_path(subject) if subject else "/schemas")

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
        found = [await schemas.stored_version(registry, name, each) for each in chosen]
        gone = [f"{name}, version {each.version}, id {each.id}" for each in found]
        notes = [_SOFT.format(shlex.join([name, *([] if is_whole else ["--version", which])]))]
        if is_whole:
            gone += await self._settings_of(name)
            before = await schemas.deleted_versions(registry, name, versions)
            notes += [f"{_EARLIER} {_listed(before)}."] if before else []
        effects = tuple(Effect("gone", each) for each in gone)
        plan = Preview(title, effects, tuple(notes), typed=name)
        return preview_page(self._renderer, request, plan, form)

    async def _settings_of(self, subject: str) -> list[str]:
        """Return the settings of a subject itself, which go with all of its versions."""
        registry = self._registry()
        own = (
            ("compatibility level", await schemas.level_of(registry, subject)),
            ("mode", await schemas.mode_of(registry, subject)),
        )
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


def registry_of(connection: Connection) -> SchemaRegistry:
    """Return the client of the registry. Raise BadForm without one."""
    if connection.decoder is None:
        raise BadForm(NO_REGISTRY)
    return connection.decoder.registry()


def version_of(given: str | None, known: list[int], default: int) -> int:
    """Return the version that a field names. Raise BadForm."""
    if not given:
        return default
    if not given.isdecimal() or int(given) not in known:
        raise BadForm(f"version: the subject has {', '.join(map(str, known))}")
    return int(given)


def difference(before: RegisteredSchema, after: RegisteredSchema) -> list[Line]:
    """Return the changed lines with some around them; none if the texts are equal."""
    old, new = (indented(each.schema.text).splitlines() for each in (before, after))
    lines = list(unified_diff(old, new, lineterm="", n=_LINES_AROUND))[2:]
    kinds = {"-": "gone", "+": "new", "@": "place"}
    return [Line(kinds.get(line[:1], ""), line) for line in lines]


async def _referred_to(registry: SchemaRegistry, subject: str, versions: list[int]) -> list[str]:
    """Return a line for each version that others refer to."""
    found = await schemas.references_to(registry, subject, versions)
    return [
        f"Version {each} stays, because these refer to it: {', '.join(named)}. Delete them first."
        for each, named in found.items()
    ]


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
