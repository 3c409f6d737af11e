"""The schemas of a document: the latest version of each subject, and its compatibility."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.client.serdes.registry.schemas import Config, RegisteredSchema, RegistryError
from moldau.operations.plan import Action, Change, PlanStep
from moldau.values.schema import AVRO, PROTOBUF, Schema

if TYPE_CHECKING:
    from moldau.client.sync import SchemaRegistry

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


@dataclass
class Schemas:
    """Plans and registers the schemas of a document."""

    kind: ClassVar = KIND
    registry: SchemaRegistry
    wanted: Entries
    prunes: bool

    def plan(self) -> list[PlanStep]:
        """Return the steps. The registry has checked that each schema may follow."""
        new: set[str] = set()
        steps = []
        for subject in in_order(self.wanted):
            step = self._step(subject, new)
            if any(each.what == KIND for each in step.changes):
                new.add(subject)
            steps.append(step)
        if self.prunes:
            gone = sorted(set(self.registry.subjects()) - self.wanted.keys())
            steps += [PlanStep(Action.REMOVE, KIND, name, note="softly") for name in gone]
        return steps

    def _step(self, subject: str, new: set[str]) -> PlanStep:
        schema, level = self.wanted[subject]
        latest = _latest(self.registry, subject)
        changes, note = [], ""
        present = None if level is None else _level(self.registry, subject)
        if present != level:
            changes.append(Change(_COMPATIBILITY, present, level))
        if latest is None or not is_same(latest.schema, schema):
            known = None if latest is None else self._version(subject, schema)
            if known is None:
                after = f"version {1 if latest is None else latest.version + 1}"
                before = None if latest is None else f"version {latest.version}"
                refers_to_new = any(each.subject in new for each in schema.references)
                if not refers_to_new and present == level:
                    note = self._refusal(subject, schema)
                changes.append(Change(KIND, before, after))
            elif latest is not None and known != latest.version:
                note = f"it is version {known}; the latest is {latest.version}"
        if note and any(each.what == KIND for each in changes):
            return PlanStep(Action.REFUSE, KIND, subject, note=note)
        action = Action.UPDATE if changes else Action.KEEP
        if latest is None:
            action = Action.CREATE
        return PlanStep(action, KIND, subject, tuple(changes), note)

    def _version(self, subject: str, schema: Schema) -> int | None:
        """Return the version that the schema has already."""
        try:
            return self.registry.lookup(subject, schema).version
        except RegistryError as error:
            if error.status != _NOT_FOUND and error.retriable:
                raise
            return None  # also for what is no schema: the check of compatibility says why

    def _refusal(self, subject: str, schema: Schema) -> str:
        """Return why the registry would refuse the schema, or an empty text."""
        try:
            found = self.registry.is_compatible(subject, schema, None)
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return ""  # a new subject
            if error.retriable or not error.status:
                raise
            return f"the registry refuses the schema: {error}"
        if found.is_compatible:
            return ""
        reasons = "; ".join(found.messages[:_REASONS_MAX])
        return (
            f"it may not follow the versions there: {reasons}. Change it so that it may, or "
            "write another compatibility"
        )

    def do(self, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.REMOVE:
            self.registry.delete_subject(step.name)
            return
        schema, level = self.wanted[step.name]
        for each in step.changes:
            if each.what == _COMPATIBILITY:
                self.registry.set_config(Config(compatibility=level), step.name)
            else:
                self.registry.register(step.name, schema)


def _latest(registry: SchemaRegistry, subject: str) -> RegisteredSchema | None:
    try:
        return registry.latest(subject)
    except RegistryError as error:
        if error.status != _NOT_FOUND:
            raise
        return None


def _level(registry: SchemaRegistry, subject: str) -> str | None:
    """Return the compatibility that is set for the subject itself."""
    try:
        return registry.config(subject).compatibility
    except RegistryError as error:
        if error.status != _NOT_FOUND:
            raise
        return None


def exported(registry: SchemaRegistry, subjects: Iterable[str]) -> dict[str, Any]:
    """Return the section of a document with these subjects."""
    section: dict[str, Any] = {}
    for subject in subjects:
        found = registry.latest(subject).schema
        entry: dict[str, Any] = {"type": found.type.lower(), "schema": _readable(found)}
        if found.references:
            entry["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in found.references
            ]
        level = _level(registry, subject)
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
