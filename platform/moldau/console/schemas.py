"""Schemas of the registry: subjects, versions, what changed between two, and compatibility."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.serdes.registry.schemas import Compatibility, RegisteredSchema, Schema
from moldau.console.connection import Connection
from moldau.console.paging import paged
from moldau.console.rendering import BadForm, Renderer, form_of
from moldau.console.texts import indented

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry

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

    async def list(self, request: Request) -> Response:
        """A page of the subjects whose names contain a text."""
        if self._connection.decoder is None:
            return self._renderer.failure(request, 200, "Schemas", NO_REGISTRY)
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
        latest = (await latest_of(registry, name)).schema
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
        found = await as_it_is(registry, name, number)
        before = found if other == number else await as_it_is(registry, name, other)
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


def registry_of(connection: Connection) -> SchemaRegistry:
    """Return the client of the registry. Raise BadForm without one."""
    if connection.decoder is None:
        raise BadForm(NO_REGISTRY)
    return connection.decoder.registry()


async def as_it_is(registry: SchemaRegistry, subject: str, version: int) -> RegisteredSchema:
    """Return a version as the registry has it now. The client keeps what it has read, and a number
    has another schema if the subject was removed for good and registered again."""
    return await registry.version(subject, version, deleted=True)


async def latest_of(registry: SchemaRegistry, subject: str) -> RegisteredSchema:
    """Return the latest version as the registry has it now."""
    return await as_it_is(registry, subject, max(await registry.versions(subject)))


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
