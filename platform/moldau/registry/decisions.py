"""Decides writes: each request becomes records for the topic, and an answer. No IO.

A decision changes nothing. Its answer is sent when the records were read back from the topic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moldau.folds.leader_writer import Outcome
from moldau.registry import refusals, requests
from moldau.registry.catalogue import Catalogue
from moldau.registry.records import (
    config_entry,
    context_entry,
    context_tombstone,
    delete_entry,
    mode_entry,
    schema_entry,
    schema_tombstone,
)
from moldau.registry.requests import Registration
from moldau.registry.store import Store, Version, digest_of, guid_of
from moldau.registry.subjects import DEFAULT, checked, context_of
from moldau.values.schema import Schema

_READ_ONLY = ("READONLY", "READONLY_OVERRIDE")


class Decisions:
    """Decides requests by what the store says now."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    # Schemas

    def register(self, subject: str, asked: Registration, *, normalize: bool) -> Outcome:
        """Add a version, unless the latest schema or another version is the same."""
        subject = checked(subject)
        schema, known = self._found(subject, asked, normalize=normalize)
        if known is not None:
            return Outcome(_registered(known))
        is_import = self._store.mode(subject) == "IMPORT"
        context = self._store.context(context_of(subject))
        number = self._number(subject, asked.version, is_import=is_import)
        if not is_import:
            self._check_compatible(subject, schema)
        digest = digest_of(schema)
        schema_id = asked.id or context.ids.get(digest) or context.max_id + 1
        taken = context.schemas.get(schema_id)
        if taken is not None and digest_of(taken) != digest:
            raise refusals.id_is_taken(schema_id)
        made = Version(subject, number, schema_id, schema, digest)
        body = _body_of(schema)
        return Outcome(
            _registered(made), [schema_entry(subject, number, schema_id, body, is_deleted=False)]
        )

    def registered(self, subject: str, asked: Registration, *, normalize: bool) -> Any:
        """Return the answer to a registration that needs no record, without a comparison with older
        versions; None if it needs a record. Raise Refusal."""
        _, known = self._found(checked(subject), asked, normalize=normalize)
        return None if known is None else _registered(known)

    def _found(
        self, subject: str, asked: Registration, *, normalize: bool
    ) -> tuple[Schema, Version | None]:
        """Return the schema as it is stored, and the version that has it already. Raise Refusal."""
        self._check_mode(subject, self._store.mode(subject), has_id=asked.id is not None)
        normalize = normalize or self._store.setting(subject, "normalize") is True
        given = self._catalogue.canonical(asked.schema, subject, normalize=normalize)
        schema = self._populated(subject, given)
        known = self.find(subject, given) or self.find(subject, schema)
        return schema, known if known is not None and asked.id in (None, known.id) else None

    def _number(self, subject: str, wanted: int | None, *, is_import: bool) -> int:
        """Return the number of a new version. An import may leave gaps; nothing is overwritten."""
        following = self._store.next_version(subject)
        if wanted is None or wanted == following:
            return following
        if not is_import or self._store.version(subject, wanted) is not None:
            raise refusals.not_the_next_version(subject, wanted, following)
        return wanted

    def find(self, subject: str, schema: Schema, *, deleted: bool = False) -> Version | None:
        """Return the latest version of a subject with this canonical schema. Metadata and rules
        are compared only if the schema has some."""
        digest = digest_of(schema)
        versions = self._store.versions(subject, deleted=deleted)[::-1]
        for each in versions:
            if each.digest == digest:
                return each
        identity = self._catalogue.identity(schema, subject)
        for each in versions:
            if self._is_same(schema, identity, each):
                return each
        return None

    def _is_same(self, schema: Schema, identity: bytes, version: Version) -> bool:
        known = version.schema
        if known.type != schema.type or known.references != schema.references:
            return False
        for given, own in ((schema.metadata, known.metadata), (schema.rules, known.rules)):
            if given is not None and given != own:
                return False
        if known.text == schema.text:
            return True
        # Another registry may have stored it in another form.
        return self._catalogue.identity_of(version) == identity

    def _populated(self, subject: str, schema: Schema) -> Schema:
        """Return the schema with metadata and rules: its own, else those of the latest version,
        else the default ones; what the configuration overrides wins."""
        latest = self._store.latest(subject)
        setting = self._store.setting
        metadata, rules = schema.metadata, schema.rules
        if metadata is None:
            metadata = latest.schema.metadata if latest else setting(subject, "defaultMetadata")
        if rules is None:
            rules = latest.schema.rules if latest else setting(subject, "defaultRuleSet")
        metadata = _merged(metadata, setting(subject, "overrideMetadata"))
        rules = _merged(rules, setting(subject, "overrideRuleSet"))
        return replace(schema, metadata=metadata or None, rules=rules or None)

    def _check_mode(self, subject: str, mode: str, *, has_id: bool) -> None:
        where = f"Subject {subject} in context {context_of(subject)}"
        if mode in _READ_ONLY:
            raise refusals.not_permitted(f"{where} is in read-only mode")
        if has_id and mode != "IMPORT":
            raise refusals.not_permitted(f"{where} is not in import mode")
        if not has_id and mode == "IMPORT":
            raise refusals.not_permitted(f"{where} is in import mode: give the id of the schema")

    def _check_compatible(self, subject: str, schema: Schema) -> None:
        problems = self.problems(subject, schema)
        if problems:
            raise refusals.incompatible(subject, problems)

    def problems(self, subject: str, schema: Schema) -> list[str]:
        """Return why the schema cannot be the subject's next version, in words."""
        level = self._store.level(subject)
        older = self._store.versions(subject)[::-1]
        group = self._store.setting(subject, "compatibilityGroup")
        if group is not None:
            wanted = _property(schema, group)
            older = [each for each in older if _property(each.schema, group) == wanted]
        if not level.endswith("_TRANSITIVE"):
            older = older[:1]
        return self._catalogue.problems(schema, subject, older, level)

    # Deletion

    def delete_subject(self, subject: str, *, permanent: bool) -> Outcome:
        """Soft-delete all versions; `permanent` removes those that are soft-deleted."""
        self._check_writable(subject)
        every = self._store.versions(subject, deleted=True)
        if not every:
            raise refusals.no_subject(subject)
        alive = [each for each in every if not each.is_deleted]
        if permanent:
            if alive:
                raise refusals.subject_is_not_deleted(subject)
            return self._removed(every, [each.version for each in every])
        if not alive:
            raise refusals.subject_is_deleted(subject)
        for each in alive:
            self._check_unreferenced(each)
        made = [delete_entry(subject, alive[-1].version)]
        if subject in self._store.modes:
            made.append(mode_entry(subject, None))
        if subject in self._store.configs:
            made.append(config_entry(subject, None))
        return Outcome([each.version for each in alive], made)

    def delete_version(self, subject: str, version: int | None, *, permanent: bool) -> Outcome:
        """Soft-delete one version, None for the latest; `permanent` removes a soft-deleted one."""
        self._check_writable(subject)
        every = self._store.versions(subject, deleted=True)
        if not every or (not permanent and all(each.is_deleted for each in every)):
            raise refusals.no_subject(subject)
        if version is None:
            found = every[-1] if permanent else self._store.latest(subject)
        else:
            found = self._store.version(subject, version)
        if found is None:
            raise refusals.no_version(version)
        if permanent:
            if not found.is_deleted:
                raise refusals.version_is_not_deleted(subject, found.version)
            return self._removed([found], found.version)
        if found.is_deleted:
            raise refusals.version_is_deleted(subject, found.version)
        self._check_unreferenced(found)
        body = _body_of(found.schema)
        entry = schema_entry(subject, found.version, found.id, body, is_deleted=True)
        return Outcome(found.version, [entry])

    def _removed(self, versions: list[Version], answer: Any) -> Outcome:
        """Remove versions for good. If the highest id goes with them, it is kept first."""
        for each in versions:
            self._check_unreferenced(each)
        name = context_of(versions[0].subject)
        max_id = self._store.context(name).max_id
        entries = [schema_tombstone(each.subject, each.version) for each in versions]
        if any(each.id == max_id for each in versions):
            entries.insert(0, context_entry(name, max_id))
        return Outcome(answer, entries)

    def _check_unreferenced(self, version: Version) -> None:
        if self._store.referrers(version.place):
            raise refusals.is_referenced(version.subject, version.version)

    def _check_writable(self, subject: str) -> None:
        if self._store.mode(subject) in _READ_ONLY:
            where = f"Subject {subject} in context {context_of(subject)}"
            raise refusals.not_permitted(f"{where} is in read-only mode")

    def delete_context(self, context: str) -> Outcome:
        """Remove an empty context."""
        if context == DEFAULT or self._store.context(context).schemas:
            raise refusals.context_is_not_empty(context)
        return Outcome(None, [context_tombstone(context)])

    # Settings and modes

    def set_config(self, subject: str | None, asked: dict[str, Any]) -> Outcome:
        """Change the fields that are given."""
        _check_scope(subject)
        if self._store.mode(subject) in _READ_ONLY:
            raise refusals.not_permitted(f"Subject {subject or '(global)'} is in read-only mode")
        config = self._store.configs.get(subject, {}) | asked
        answer = requests.answered_config(asked, "compatibility")
        return Outcome(answer, [config_entry(subject, config)])

    def delete_config(self, subject: str | None) -> Outcome:
        """Remove the settings, so that those around apply again."""
        known = self._store.configs.get(subject)
        if known is None and subject is not None:
            raise refusals.no_config(subject)
        default = {"compatibilityLevel": self._store.level(None)}
        answer = requests.answered_config(known or default, "compatibilityLevel")
        return Outcome(answer, [config_entry(subject, None)])

    def set_mode(self, subject: str | None, mode: str, *, force: bool) -> Outcome:
        """Change the mode. IMPORT needs an empty registry or subject, unless it is forced."""
        _check_scope(subject)
        if mode == "IMPORT" and self._store.mode(subject) != "IMPORT" and not force:
            self._check_empty(subject)
        return Outcome({"mode": mode}, [mode_entry(subject, mode)])

    def _check_empty(self, subject: str | None) -> None:
        if subject is None or subject.endswith(":"):
            context = context_of(subject or "")
            has_any = bool(self._store.context(context).places)
        else:
            has_any = bool(self._store.versions(subject))
        if has_any:
            raise refusals.not_permitted(
                "Cannot import since found existing subjects: delete them, or use force=true"
            )

    def delete_mode(self, subject: str | None) -> Outcome:
        """Remove a mode, so that the one around applies again."""
        known = self._store.modes.get(subject)
        if known is None and subject is not None:
            raise refusals.no_mode(subject)
        return Outcome({"mode": known or self._store.mode(None)}, [mode_entry(subject, None)])


def _check_scope(subject: str | None) -> None:
    """Raise Refusal for a name without a subject in the default context, such as `:.:`."""
    if subject == "":
        raise refusals.invalid_subject(":.:")


def _registered(version: Version) -> dict[str, Any]:
    return {
        "id": version.id,
        "version": version.version,
        "guid": guid_of(version.schema),
        **_body_of(version.schema),
    }


def _body_of(schema: Schema) -> dict[str, Any]:
    return schema.to_json()


def _merged(base: Any, over: Any) -> Any:
    """Return both, field by field; lists and values of `over` win."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return base if over is None else over
    made = dict(base)
    for name, value in over.items():
        both = isinstance(made.get(name), dict) and isinstance(value, dict)
        made[name] = {**made[name], **value} if both else value
    return made


def _property(schema: Schema, name: str) -> object:
    return ((schema.metadata or {}).get("properties") or {}).get(name)
