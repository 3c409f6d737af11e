"""Answers reads from the store. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from moldau.registry import refusals, requests
from moldau.registry.catalogue import Catalogue
from moldau.registry.decisions import Decisions
from moldau.registry.requests import Registration
from moldau.registry.store import Store, Version, guid_of
from moldau.registry.subjects import ALL, context_of, local_name
from moldau.values.schema import Schema

T = TypeVar("T")

_LIMIT: Final = 20_000
ALL_VERSIONS: Final = "all"


class Queries:
    """Answers of the REST API, as JSON values."""

    def __init__(self, store: Store, catalogue: Catalogue, decisions: Decisions) -> None:
        self._store = store
        self._catalogue = catalogue
        self._decisions = decisions

    # By id

    def by_id(
        self, schema_id: int, subject: str | None, format: str, *, fetches_max_id: bool
    ) -> dict[str, Any]:
        """Return the schema of an id."""
        context, schema = self._of_id(schema_id, subject)
        answer = self._body(schema, subject or f":{context}:", format)
        answer["guid"] = guid_of(schema)
        if fetches_max_id:
            answer["maxId"] = self._store.context(context).max_id
        return answer

    def text_of_id(self, schema_id: int, subject: str | None, format: str) -> str:
        """Return only the text."""
        context, schema = self._of_id(schema_id, subject)
        return str(self._body(schema, subject or f":{context}:", format)["schema"])

    def places_of_id(
        self, schema_id: int, subject: str | None, *, deleted: bool
    ) -> list[dict[str, Any]]:
        """Return the versions that have the schema of an id."""
        context, _ = self._of_id(schema_id, subject)
        found = self._store.places(context, schema_id, deleted=deleted)
        return [{"subject": each.subject, "version": each.version} for each in found]

    def by_guid(self, guid: str, format: str) -> dict[str, Any]:
        """Return the schema of a GUID."""
        (name, schema_id), *_ = self._guids(guid)
        schema = self._store.context(name).schemas[schema_id]
        return self._body(schema, f":{name}:", format) | {"guid": guid}

    def ids_of_guid(self, guid: str) -> list[dict[str, Any]]:
        """Return the ids of a GUID, one a context."""
        return [{"context": name, "id": each} for name, each in self._guids(guid)]

    def _guids(self, guid: str) -> list[tuple[str, int]]:
        try:
            digest = bytes.fromhex(guid.replace("-", ""))
        except ValueError:
            raise refusals.no_schema(guid) from None
        found = [
            (name, each.ids[digest])
            for name, each in self._store.contexts.items()
            if digest in each.ids
        ]
        if not found:
            raise refusals.no_schema(guid)
        return found

    def _of_id(self, schema_id: int, subject: str | None) -> tuple[str, Schema]:
        context = None if subject is None else context_of(subject)
        found = self._store.by_id(schema_id, context)
        if found is None:
            raise refusals.no_schema(schema_id)
        return found

    def _body(self, schema: Schema, subject: str, format: str) -> dict[str, Any]:
        """Return a schema as answers have it. In a format that its type does not have, it stays as
        it is, and so does one that no parser reads."""
        answer = schema.to_json()
        if format:
            try:
                text = self._catalogue.parsed(schema, subject).text(format)
            except refusals.Refusal:
                text = None
            if text is not None:
                answer["schema"] = text
        return answer

    # By subject

    def subjects(self, prefix: str, *, deleted: bool, only_deleted: bool) -> list[str]:
        """Return the subjects that begin with a prefix, which may be a context."""
        found = []
        for name, versions in self._store.subjects.items():
            if not _begins(name, prefix):
                continue
            is_alive = not all(each.is_deleted for each in versions.values())
            if deleted or is_alive is not only_deleted:
                found.append(name)
        return sorted(found)

    def versions(self, subject: str, *, deleted: bool, only_deleted: bool) -> list[int]:
        """Return the numbers of a subject's versions."""
        every = self._store.versions(self.aliased(subject), deleted=deleted or only_deleted)
        numbers = [each.version for each in every if each.is_deleted or not only_deleted]
        if not numbers:
            raise refusals.no_subject(subject)
        return numbers

    def version(self, subject: str, number: int | None, *, deleted: bool = False) -> Version:
        """Return a version, None for the latest. Raise Refusal if there is none."""
        subject = self.aliased(subject)
        every = self._store.versions(subject, deleted=deleted)
        if not every:
            raise refusals.no_subject(subject)
        if number is None:
            return every[-1]
        found = self._store.version(subject, number)
        if found is None or (found.is_deleted and not deleted):
            raise refusals.no_version(number)
        return found

    def described(self, version: Version, format: str = "") -> dict[str, Any]:
        """Return a version as answers have it."""
        answer = {
            "subject": version.subject,
            "version": version.version,
            "id": version.id,
            "guid": guid_of(version.schema),
            **self._body(version.schema, version.subject, format),
        }
        return answer | ({"deleted": True} if version.is_deleted else {})

    def referrers(self, version: Version) -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        return sorted({each.id for each in self._store.referrers(version.place)})

    def lookup(
        self, subject: str, asked: Registration, *, normalize: bool, deleted: bool
    ) -> Version:
        """Return the subject's version with a schema. Raise Refusal."""
        subject = self.aliased(subject)
        if not self._store.versions(subject, deleted=deleted):
            raise refusals.no_subject(subject)
        normalize = normalize or self._store.setting(subject, "normalize") is True
        schema = self._catalogue.canonical(asked.schema, subject, normalize=normalize)
        found = self._decisions.find(subject, schema, deleted=deleted)
        if found is None:
            raise refusals.no_schema()
        return found

    def with_metadata(
        self, subject: str, keys: Sequence[str], values: Sequence[str], *, deleted: bool
    ) -> Version:
        """Return the latest version that has all these properties in its metadata."""
        wanted = dict(zip(keys, values, strict=False))
        for each in reversed(self._store.versions(self.aliased(subject), deleted=deleted)):
            own = (each.schema.metadata or {}).get("properties") or {}
            if wanted.items() <= own.items():
                return each
        raise refusals.no_schema()

    def schemas(self, prefix: str, *, deleted: bool, latest_only: bool) -> list[dict[str, Any]]:
        """Return the versions of all subjects that begin with a prefix."""
        found = []
        for name in self.subjects(prefix, deleted=deleted, only_deleted=False):
            versions = self._store.versions(name, deleted=deleted)
            found += versions[-1:] if latest_only else versions
        return [self.described(each) for each in found]

    def aliased(self, subject: str) -> str:
        """Return the subject that an alias stands for."""
        if self._store.versions(subject):
            return subject
        alias = self._store.configs.get(subject, {}).get("alias")
        return subject if alias is None else str(alias)

    # Compatibility, settings, modes

    def problems(
        self, subject: str, asked: Registration, number: int | str | None, *, normalize: bool
    ) -> list[str]:
        """Return why a schema is incompatible with a version, or with those of the level."""
        schema = self._catalogue.canonical(asked.schema, subject, normalize=normalize)
        if number == ALL_VERSIONS:
            return self._decisions.problems(subject, schema)
        assert not isinstance(number, str)
        older = self.version(subject, number)
        level = self._store.level(subject)
        return self._catalogue.problems(schema, subject, [older], level)

    def config(self, subject: str | None, *, is_effective: bool) -> dict[str, Any]:
        """Return settings; `is_effective` means those around, where a subject has none."""
        known = self._store.configs.get(subject)
        if known is None and subject is not None and not is_effective:
            raise refusals.no_config(subject)
        config = {"compatibilityLevel": self._store.level(subject), **(known or {})}
        return requests.answered_config(config, "compatibilityLevel")

    def mode(self, subject: str | None, *, is_effective: bool) -> str:
        """Return the mode, as `config` does."""
        if subject is not None and subject not in self._store.modes and not is_effective:
            raise refusals.no_mode(subject)
        if subject is not None and not is_effective:
            return self._store.modes[subject]
        return self._store.mode(subject)

    def contexts(self) -> list[str]:
        """Return the names of the contexts."""
        return sorted(self._store.contexts)


def page(items: Iterable[T], offset: int, limit: int) -> list[T]:
    """Return a part of a list; a limit of -1 means no limit."""
    end = None if limit < 0 else offset + min(limit, _LIMIT)
    return list(items)[max(offset, 0) : end]


def _begins(subject: str, prefix: str) -> bool:
    if prefix in ("", ALL):
        return True
    if prefix.startswith(ALL):
        return local_name(subject).startswith(prefix.removeprefix(ALL))
    if prefix.startswith(":.:"):
        return not subject.startswith(":.") and subject.startswith(prefix[3:])
    return subject.startswith(prefix)
