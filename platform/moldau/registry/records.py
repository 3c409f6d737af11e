"""The records of the topic `_schemas`, in the format of Confluent's registry. No IO.

    {"keytype":"SCHEMA","subject":"s","version":1,"magic":1}     a version of a subject
    {"keytype":"CONFIG","subject":null,"magic":0}                settings, here the global ones
    {"keytype":"MODE","subject":"s","magic":0}                   a mode
    {"keytype":"DELETE_SUBJECT","subject":"s","magic":0}         versions up to one are soft-deleted
    {"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}          the same, of older registries
    {"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}
    {"keytype":"NOOP","magic":0}

Keys are written byte for byte as Confluent's registry writes them, because compaction compares
bytes. A CONTEXT record has one field more here: `maxId`, the highest id that was ever given. It
keeps an id from being given again after its schema was deleted for good.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
CONTEXT: Final = "CONTEXT"
NOOP: Final = "NOOP"

_TENANT: Final = "default"


class Entry(NamedTuple):
    """A record to append."""

    key: bytes
    value: bytes | None


def dump(value: object) -> bytes:
    """Return JSON without blanks, as Confluent's registry writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def schema_entry(
    subject: str, version: int, schema_id: int, body: dict[str, Any], *, is_deleted: bool
) -> Entry:
    """Return the record of a version. `body` is the schema as it is in requests."""
    value = {"subject": subject, "version": version, "id": schema_id}
    value |= {name: each for name, each in body.items() if name != "schema"}
    value |= {"schema": body["schema"], "deleted": is_deleted}
    return Entry(_schema_key(subject, version), dump(value))


def schema_tombstone(subject: str, version: int) -> Entry:
    """Return the record that removes a version for good."""
    return Entry(_schema_key(subject, version), None)


def _schema_key(subject: str, version: int) -> bytes:
    return dump({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1})


def config_entry(subject: str | None, config: dict[str, Any] | None) -> Entry:
    """Return the record of a configuration; None removes it."""
    value = None if config is None else dump(_of_subject(subject) | config)
    return Entry(_subject_key(CONFIG, subject), value)


def mode_entry(subject: str | None, mode: str | None) -> Entry:
    """Return the record of a mode; None removes it."""
    value = None if mode is None else dump(_of_subject(subject) | {"mode": mode})
    return Entry(_subject_key(MODE, subject), value)


def delete_entry(subject: str, version: int) -> Entry:
    """Return the record that soft-deletes all versions up to this one."""
    value = dump({"subject": subject, "version": version})
    return Entry(_subject_key(DELETE_SUBJECT, subject), value)


def context_entry(context: str, max_id: int) -> Entry:
    """Return the record that keeps the highest id of a context."""
    key = {"keytype": CONTEXT, "tenant": _TENANT, "context": context, "magic": 0}
    return Entry(dump(key), dump({"tenant": _TENANT, "context": context, "maxId": max_id}))


def context_tombstone(context: str) -> Entry:
    """Return the record that removes a context."""
    key = {"keytype": CONTEXT, "tenant": _TENANT, "context": context, "magic": 0}
    return Entry(dump(key), None)


def _subject_key(kind: str, subject: str | None) -> bytes:
    return dump({"keytype": kind, "subject": subject, "magic": 0})


def _of_subject(subject: str | None) -> dict[str, Any]:
    return {} if subject is None else {"subject": subject}
