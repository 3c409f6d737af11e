"""Schemas of a registry: versions and compatibility of subjects, and those of a document.

A registry that works and has no such subject is no error here: there are no versions, and no level.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.client.serdes.registry.schemas import (
    Compatibility,
    Config,
    RegisteredSchema,
    RegistryError,
)
from moldau.deferred import dataclass
from moldau.operations.plan import Action, Change, PlanStep
from moldau.values.schema import AVRO, PROTOBUF, Schema

if TYPE_CHECKING:
    from moldau.client.serdes.registry.client import SchemaRegistry

KIND: Final = "schema"
_NOT_FOUND: Final = 404
_COMPATIBILITY: Final = "compatibility"
_REASONS_MAX: Final = 3
Entries = Mapping[str, tuple[Schema, str | None]]
"""The schema and the compatibility of each subject."""


def in_order(wanted: Entries) -> list[str]:
    """Return the subjects, each behind those that its schema refers to."""
    ordered: dict[str, None] = {}

    def add(subject: str, above: tuple[str, ...]) -> None:
        if subject in wanted and subject not in ordered and subject not in above:
            for reference in wanted[subject][0].references:
                add(reference.subject, (*above, subject))
            ordered[subject] = None

    for subject in wanted:
        add(subject, ())
    return list(ordered)


def is_same(one: Schema, other: Schema) -> bool:
    """Whether two schemas are written alike; in JSON, spaces do not count."""
    if (one.type, one.references) != (other.type, other.references):
        return False
    return bool(_content(one) == _content(other))


def _content(schema: Schema) -> Any:
    if schema.type == PROTOBUF:
        return schema.text.strip()
    try:
        return json.loads(schema.text)
    except ValueError:
        return schema.text


async def versions_of(registry: SchemaRegistry, subject: str) -> list[int]:
    """Return the versions of a subject; none if there is no such subject."""
    try:
        return await registry.versions(subject)
    except RegistryError as error:
        if not error.is_of_record:
            raise
        return []


async def stored_version(registry: SchemaRegistry, subject: str, version: int) -> RegisteredSchema:
    """Return a version as the registry has it now. The client keeps what it has read, and a number
    has another schema if the subject was removed for good and registered again."""
    return await registry.version(subject, version, deleted=True)


async def latest_version(registry: SchemaRegistry, subject: str) -> RegisteredSchema:
    """Return the latest version as the registry has it now."""
    return await stored_version(registry, subject, max(await registry.versions(subject)))


async def check_schema(
    registry: SchemaRegistry, subject: str, schema: Schema
) -> Compatibility | None:
    """Return whether a schema may follow; None of a registry that judges no new subjects."""
    try:
        return await registry.is_compatible(subject, schema, None)
    except RegistryError as error:
        if not error.is_of_record:
            raise
        return None


async def level_of(registry: SchemaRegistry, subject: str | None) -> str | None:
    """Return the compatibility that is set for a subject itself, or with None for all others."""
    try:
        return (await registry.config(subject)).compatibility
    except RegistryError as error:
        if not error.is_of_record:
            raise
        return None


async def set_level(registry: SchemaRegistry, subject: str | None, level: str | None) -> None:
    """Set the compatibility of a subject, or with None of all others. None removes a subject's."""
    if level is not None:
        await registry.set_config(Config(compatibility=level), subject)
    else:
        assert subject is not None, "the level of all others stays"
        await registry.delete_config(subject)


async def mode_of(registry: SchemaRegistry, subject: str) -> str | None:
    """Return the mode that is set for a subject itself."""
    try:
        return await registry.mode(subject)
    except RegistryError as error:
        if not error.is_of_record:
            raise
        return None


async def references_to(
    registry: SchemaRegistry, subject: str, versions: Iterable[int]
) -> dict[int, list[str]]:
    """Return what refers to each version, where anything does: a registry deletes none of these."""
    found = {}
    for each in versions:
        ids = await registry.referenced_by(subject, each)
        named = [f"the schema with id {number}" for number in ids]
        if not subject.startswith(":."):  # an id alone is one of the default context
            places = [place for number in ids for place in await registry.schema_versions(number)]
            named = [f"{name} version {version}" for name, version in places] or named
        if named:
            found[each] = named
    return found


async def deleted_versions(
    registry: SchemaRegistry, subject: str, live: Collection[int]
) -> set[int]:
    """Return the versions that were deleted softly: removed for good with all of the subject."""
    return set(await registry.versions(subject, deleted=True)) - set(live)


@dataclass
class Schemas:
    """Plans and registers the schemas of a document."""

    kind: ClassVar = KIND
    wanted: Entries
    prunes: bool

    async def plan(self, registry: SchemaRegistry) -> list[PlanStep]:
        """Return the steps. The registry has checked that each schema may follow."""
        new: set[str] = set()
        steps = []
        for subject in in_order(self.wanted):
            step = await self._step(registry, subject, new)
            if any(each.what == KIND for each in step.changes):
                new.add(subject)
            steps.append(step)
        if self.prunes:
            gone = sorted(set(await registry.subjects()) - self.wanted.keys())
            steps += [PlanStep(Action.REMOVE, KIND, name, note="softly") for name in gone]
        return steps

    async def _step(self, registry: SchemaRegistry, subject: str, new: set[str]) -> PlanStep:
        schema, level = self.wanted[subject]
        latest = await _latest(registry, subject)
        changes, note = [], ""
        present = None if level is None else await level_of(registry, subject)
        if present != level:
            changes.append(Change(_COMPATIBILITY, present, level))
        if latest is None or not is_same(latest.schema, schema):
            known = None if latest is None else await _version(registry, subject, schema)
            if known is None:
                after = f"version {1 if latest is None else latest.version + 1}"
                before = None if latest is None else f"version {latest.version}"
                refers_to_new = any(each.subject in new for each in schema.references)
                if not refers_to_new and present == level:
                    note = await _refusal(registry, subject, schema)
                changes.append(Change(KIND, before, after))
            elif latest is not None and known != latest.version:
                note = f"it is version {known}; the latest is {latest.version}"
        if note and any(each.what == KIND for each in changes):
            return PlanStep(Action.REFUSE, KIND, subject, note=note)
        action = Action.UPDATE if changes else Action.KEEP
        if latest is None:
            action = Action.CREATE
        return PlanStep(action, KIND, subject, tuple(changes), note)

    async def do(self, registry: SchemaRegistry, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.REMOVE:
            await registry.delete_subject(step.name)
            return
        schema, level = self.wanted[step.name]
        for each in step.changes:
            if each.what == _COMPATIBILITY:
                await set_level(registry, step.name, level)
            else:
                await registry.register(step.name, schema)


async def _version(registry: SchemaRegistry, subject: str, schema: Schema) -> int | None:
    """Return the version that the schema has already."""
    try:
        return (await registry.lookup(subject, schema)).version
    except RegistryError as error:
        if error.status != _NOT_FOUND and error.retriable:
            raise
        return None  # also for what is no schema: the check of compatibility says why


async def _refusal(registry: SchemaRegistry, subject: str, schema: Schema) -> str:
    """Return why the registry would refuse the schema, or an empty text."""
    try:
        found = await check_schema(registry, subject, schema)
    except RegistryError as error:
        if error.retriable or not error.status:
            raise
        return f"the registry refuses the schema: {error}"
    if found is None or found.is_compatible:
        return ""
    reasons = "; ".join(found.messages[:_REASONS_MAX])
    return (
        f"it may not follow the versions there: {reasons}. Change it so that it may, or "
        "write another compatibility"
    )


async def _latest(registry: SchemaRegistry, subject: str) -> RegisteredSchema | None:
    try:
        return await registry.latest(subject)
    except RegistryError as error:
        if not error.is_of_record:
            raise
        return None


async def exported(registry: SchemaRegistry) -> dict[str, Any]:
    """Return the section of a document with all subjects."""
    section: dict[str, Any] = {}
    for subject in await registry.subjects():
        found = (await registry.latest(subject)).schema
        entry: dict[str, Any] = {"type": found.type.lower(), "schema": _readable(found)}
        if found.references:
            entry["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in found.references
            ]
        level = await level_of(registry, subject)
        if level is not None:
            entry[_COMPATIBILITY] = level
        section[subject] = entry
    return section


def _readable(schema: Schema) -> str:
    """Return the text of a schema with lines that a person can read."""
    if schema.type == PROTOBUF:
        return schema.text
    try:
        content = json.loads(schema.text)
    except ValueError:
        return schema.text
    if schema.type == AVRO and isinstance(content, str):
        return schema.text
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
