"""What the topic `_schemas` says: subjects, versions, ids, settings and modes. No IO.

Invariants: only `replay` changes the store. It accepts every record: one that it cannot read is
counted and changes nothing. Schemas are kept as text, and nothing is parsed here, so a schema that
no parser understands cannot stop a start. Within a context, ids are never given twice: `max_id`
never falls, even if the schema with the highest id is deleted for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from hashlib import md5
from typing import Any, Final, TypeAlias

from moldau.client.serdes.registry.schemas import OddAnswer, schema_of, want
from moldau.deferred import dataclass
from moldau.registry import records
from moldau.registry.subjects import DEFAULT, context_of, qualified
from moldau.values.schema import Schema

Place: TypeAlias = tuple[str, int]
"""A subject and a version."""

LEVEL: Final = "BACKWARD"
READWRITE: Final = "READWRITE"


@dataclass(slots=True)
class Version:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    digest: bytes
    is_deleted: bool = False

    @property
    def place(self) -> Place:
        return self.subject, self.version


@dataclass(slots=True)
class Context:
    """The ids of one context."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    ids: dict[bytes, int] = field(default_factory=dict)
    places: dict[int, list[Place]] = field(default_factory=dict)
    max_id: int = 0


def digest_of(schema: Schema) -> bytes:
    """Return the same bytes for equal schemas, with references, metadata and rules."""
    made = md5(f"{schema.type}\0{schema.text}".encode(), usedforsecurity=False)
    if schema.references or schema.metadata or schema.rules:
        references = [(each.name, each.subject, each.version) for each in schema.references]
        more = json.dumps([references, schema.metadata, schema.rules], sort_keys=True)
        made.update(more.encode())
    return made.digest()


def guid_of(schema: Schema) -> str:
    """Return the schema's GUID, which is the same in every registry of this kind."""
    found = digest_of(schema).hex()
    return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))


class Store:
    """The fold over the topic."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {DEFAULT: Context()}
        self.subjects: dict[str, dict[int, Version]] = {}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self._referrers: dict[Place, set[Place]] = {}
        self.counts = {False: 0, True: 0}
        """How many versions there are that are not deleted, and that are."""
        self.unreadable = 0
        self.changes = 0

    # What it says

    def version(self, subject: str, version: int) -> Version | None:
        """Return a version, deleted or not."""
        return self.subjects.get(subject, {}).get(version)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject in order; `deleted` adds the soft-deleted ones."""
        found = self.subjects.get(subject, {})
        return [found[each] for each in sorted(found) if deleted or not found[each].is_deleted]

    def latest(self, subject: str) -> Version | None:
        """Return the latest version that is not deleted."""
        return next(reversed(self.versions(subject)), None)

    def next_version(self, subject: str) -> int:
        """Return the number of the subject's next version."""
        return max(self.subjects.get(subject, ()), default=0) + 1

    def context(self, name: str) -> Context:
        """Return a context, empty if nothing is in it."""
        return self.contexts.get(name) or Context()

    def by_id(self, schema_id: int, context: str | None = None) -> tuple[str, Schema] | None:
        """Return the schema of an id and its context: in `context`, else in the default context,
        else in the first one that has it."""
        first = DEFAULT if context is None else context
        others = [] if context is not None and context != DEFAULT else list(self.contexts)
        for name in (first, *others):
            schema = self.context(name).schemas.get(schema_id)
            if schema is not None:
                return name, schema
        return None

    def places(self, context: str, schema_id: int, *, deleted: bool = False) -> list[Version]:
        """Return the versions that have the schema of an id."""
        found = self.context(context).places.get(schema_id, [])
        versions = [self.subjects[subject][version] for subject, version in found]
        return [each for each in versions if deleted or not each.is_deleted]

    def referrers(self, place: Place) -> list[Version]:
        """Return the versions that refer to this one and are not deleted."""
        found = (self.version(*each) for each in sorted(self._referrers.get(place, ())))
        return [each for each in found if each is not None and not each.is_deleted]

    def setting(self, subject: str | None, name: str) -> Any:
        """Return a field of the configuration that applies to a subject, or None."""
        for scope in scopes(subject):
            found = self.configs.get(scope, {}).get(name)
            if found is not None:
                return found
        return None

    def level(self, subject: str | None) -> str:
        """Return the compatibility level that applies to a subject."""
        return str(self.setting(subject, "compatibilityLevel") or LEVEL)

    def mode(self, subject: str | None) -> str:
        """Return the mode that applies to a subject."""
        if (everywhere := self.modes.get(None)) == "READONLY_OVERRIDE":
            return everywhere
        found = (self.modes[each] for each in scopes(subject) if each in self.modes)
        return next(found, READWRITE)

    # The fold

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of the topic."""
        self.changes += 1
        try:
            about = json.loads(key or b"")
            content = None if value is None else json.loads(value)
            self._apply(about, content)
        except (ValueError, TypeError, LookupError, AttributeError, OddAnswer, RecursionError):
            self.unreadable += 1

    def _apply(self, about: Mapping[str, Any], content: Mapping[str, Any] | None) -> None:
        kind = about["keytype"]
        if kind == records.SCHEMA:
            self._on_schema(want(about, "subject", str), want(about, "version", int), content)
        elif kind == records.CONFIG:
            _set(self.configs, about["subject"], None if content is None else _config(content))
        elif kind == records.MODE:
            _set(self.modes, about["subject"], None if content is None else str(content["mode"]))
        elif kind in (records.DELETE_SUBJECT, records.CLEAR_SUBJECT):
            self._on_delete(want(about, "subject", str), content)
        elif kind == records.CONTEXT:
            self._on_context(want(about, "context", str), content)
        elif kind != records.NOOP:
            raise ValueError(kind)

    def _on_schema(self, subject: str, number: int, content: Mapping[str, Any] | None) -> None:
        if content is None:
            self._remove(subject, number)
            return
        schema = schema_of(content)
        made = Version(
            subject, number, want(content, "id", int), schema, digest_of(schema),
            content.get("deleted") is True,
        )  # fmt: skip
        known = self.version(subject, number)
        if known is not None and known.id == made.id and known.digest == made.digest:
            self._mark(known, is_deleted=made.is_deleted)
            return
        if known is not None:
            self._remove(subject, number)
        context = self.contexts.setdefault(context_of(subject), Context())
        context.schemas.setdefault(made.id, schema)
        context.ids.setdefault(made.digest, made.id)
        context.places.setdefault(made.id, []).append(made.place)
        context.max_id = max(context.max_id, made.id)
        self.subjects.setdefault(subject, {})[number] = made
        self.counts[made.is_deleted] += 1
        for each in reference_places(made):
            self._referrers.setdefault(each, set()).add(made.place)

    def _remove(self, subject: str, number: int) -> None:
        """Remove a version for good; its id too, if no other version has that."""
        gone = self.subjects.get(subject, {}).pop(number, None)
        if gone is None:
            return
        self.counts[gone.is_deleted] -= 1
        if not self.subjects[subject]:
            del self.subjects[subject]
        context = self.contexts[context_of(subject)]
        places = context.places[gone.id]
        places.remove(gone.place)
        if not places:
            del context.places[gone.id], context.schemas[gone.id]
            if context.ids.get(gone.digest) == gone.id:
                del context.ids[gone.digest]
        for each in reference_places(gone):
            self._referrers.get(each, set()).discard(gone.place)

    def _on_delete(self, subject: str, content: Mapping[str, Any] | None) -> None:
        if content is None:
            return
        up_to = content.get("version")
        for each in self.subjects.get(subject, {}).values():
            if up_to is None or each.version <= up_to:
                self._mark(each, is_deleted=True)

    def _mark(self, version: Version, *, is_deleted: bool) -> None:
        self.counts[version.is_deleted] -= 1
        self.counts[is_deleted] += 1
        version.is_deleted = is_deleted

    def _on_context(self, name: str, content: Mapping[str, Any] | None) -> None:
        if content is None:
            if name != DEFAULT and name in self.contexts and not self.contexts[name].schemas:
                del self.contexts[name]
            return
        context = self.contexts.setdefault(name, Context())
        context.max_id = max(context.max_id, int(content.get("maxId") or 0))


def scopes(subject: str | None) -> Iterator[str | None]:
    """Yield where the settings of a subject may be: its own, its context's, the global ones."""
    if subject is not None:
        yield subject
        context = context_of(subject)
        if context != DEFAULT:
            yield f":{context}:"
    yield None


def reference_places(version: Version) -> list[Place]:
    """Return the versions that a version refers to."""
    context = context_of(version.subject)
    return [(qualified(context, each.subject), each.version) for each in version.schema.references]


def _config(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in content.items() if name != "subject" and each is not None}


def _set(table: dict[Any, Any], subject: object, value: Any) -> None:
    if subject is not None and not isinstance(subject, str):
        raise ValueError(subject)
    if value is None:
        table.pop(subject, None)
    else:
        table[subject] = value
