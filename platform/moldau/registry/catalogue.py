"""Parsed schemas of the store: references resolved, and the last ones kept. No IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Final

from moldau.registry.formats import parse
from moldau.registry.refusals import Refusal, invalid_schema, too_much_work
from moldau.registry.store import Store, Version
from moldau.registry.subjects import context_of, qualified
from moldau.values.compatibility import (
    Difference,
    InvalidSchema,
    ParsedSchema,
    TooMuchWork,
    Work,
)
from moldau.values.schema import Reference, Schema

_KEPT: Final = 2_000
_READS_OLD: Final = ("BACKWARD", "FULL")
_OLD_READS: Final = ("FORWARD", "FULL")


class Catalogue:
    """Parses the schemas of requests and of the store, and compares them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: OrderedDict[tuple[Schema, str], ParsedSchema] = OrderedDict()
        self._identities: dict[tuple[bytes, str], bytes] = {}
        """Of stored schemas, by their digest and context: more than parsed ones are kept."""

    def parsed(self, schema: Schema, subject: str) -> ParsedSchema:
        """Return a schema parsed. Raise Refusal if it is invalid. It belongs to `subject`:
        references without a context are in the same one."""
        context = context_of(subject)
        key = (schema, context)
        known = self._parsed.get(key)
        if known is not None:
            self._parsed.move_to_end(key)
            return known

        def resolve(reference: Reference) -> Schema:
            name = qualified(context, reference.subject)
            found = self._store.version(name, reference.version)
            if reference.version == -1:
                found = self._store.latest(name)
            if found is None:
                raise InvalidSchema(
                    f"the reference {reference.name} is missing: subject {name} has no version "
                    f"{reference.version}"
                )
            return found.schema

        try:
            made = parse(schema, resolve)
            assert made.canonical  # printed here, where it may be too deep
        except InvalidSchema as error:
            raise invalid_schema(schema.type, str(error)) from None
        except RecursionError:
            raise invalid_schema(schema.type, "it is nested too deeply") from None
        if not schema.references or all(each.version > 0 for each in schema.references):
            self._parsed[key] = made
            if len(self._parsed) > _KEPT:
                self._parsed.popitem(last=False)
        return made

    def identity(self, schema: Schema, subject: str) -> bytes:
        """Return bytes that are equal for schemas that are the same. Raise Refusal."""
        return sha256(self.parsed(schema, subject).identity.encode()).digest()

    def identity_of(self, version: Version) -> bytes:
        """Return the identity of a stored schema; b"" if that is not readable."""
        key = version.digest, context_of(version.subject)
        known = self._identities.get(key)
        if known is None:
            try:
                known = self.identity(version.schema, version.subject)
            except Refusal:
                return b""
            self._identities[key] = known
        return known

    def canonical(self, schema: Schema, subject: str, *, normalize: bool) -> Schema:
        """Return the schema with its text in the form that is stored."""
        made = self.parsed(schema, subject)
        return replace(schema, text=made.normalized if normalize else made.canonical)

    def problems(
        self, schema: Schema, subject: str, older: Iterable[Version], level: str
    ) -> list[str]:
        """Return why the schema is incompatible with versions, in words; [] if it is compatible.
        Raise Refusal, also for a check that would take too long.

        `older` are those that the level is about, the latest first.
        """
        kind = level.removesuffix("_TRANSITIVE")
        if kind == "NONE":
            return []
        made, work = self.parsed(schema, subject), Work()
        for version in older:
            try:
                found = self._compare(made, schema, version, kind, work)
            except RecursionError:
                raise invalid_schema(schema.type, "it is nested too deeply") from None
            except TooMuchWork:
                raise too_much_work(subject, version.version, level) from None
            if found:
                more = [
                    f"{{oldSchemaVersion: {version.version}}}",
                    f"{{oldSchema: '{version.schema.text}'}}",
                    f"{{validateFields: 'false', compatibility: '{level}'}}",
                ]
                return [*map(str, found), *more]
        return []

    def _compare(
        self, made: ParsedSchema, schema: Schema, version: Version, kind: str, work: Work
    ) -> list[Difference]:
        if schema.type != version.schema.type:
            text = f"a schema of type {schema.type} cannot follow one of {version.schema.type}"
            return [Difference("SCHEMA_TYPE_CHANGED", "/", text)]
        work.spend_text(version.schema.text)
        try:
            older = self.parsed(version.schema, version.subject)
        except Refusal as error:
            return [Difference("OLD_SCHEMA_UNREADABLE", "/", error.message)]
        found: list[Difference] = []
        if kind in _READS_OLD:
            found += made.differences(older, work)
        if kind in _OLD_READS:
            found += [
                Difference(each.kind, each.path, f"for old readers: {each.description}")
                for each in older.differences(made, work)
            ]
        return found
