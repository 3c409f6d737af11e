"""The files of the sink: their names, and the roll of a partition.

`<directory>/<path>/<topic>-<partition>-<start>-<end>.<extension>`: the offsets, both inclusive, are
those of the whole roll, so that a file's name shows up to which offset everything was written.
"""

from __future__ import annotations

import re
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from moldau.connect.api import DataError, SinkRecord, Struct
from moldau.deferred import dataclass

DRAFTS = ".moldau-drafts"
DRAFT_SUFFIX = ".draft"
"""The suffix hides drafts from a reader that searches all folders for files by extension."""
_PLACEHOLDER = re.compile(r"\$\{(topic|partition|field:[^}]+|timestamp:[^}]+)\}")
_UNSAFE = re.compile(r"[^\w.=+@-]")
_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<start>\d+)-(?P<end>\d+)\.[\w.]+")


@dataclass(frozen=True, slots=True, order=True)
class RolledOffsets:
    """The offsets of one roll of a partition, both inclusive."""

    topic: str
    partition: int
    start: int
    end: int

    def file_name(self, extension: str) -> str:
        return f"{self.topic}-{self.partition}-{self.start:010d}-{self.end:010d}.{extension}"


def range_of(path: str) -> RolledOffsets | None:
    """Return the range in a file's name; None for a file that is not of this sink."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    if found is None:
        return None
    return RolledOffsets(
        found["topic"], int(found["partition"]), int(found["start"]), int(found["end"])
    )


def check_template(template: str) -> str | None:
    """Return what is wrong with a path template; None if it is valid."""
    rest = _PLACEHOLDER.sub("", template)
    if "${" in rest:
        return "knows ${topic}, ${partition}, ${field:name} and ${timestamp:%Y-%m-%d}"
    if template.startswith("/") or ".." in template.split("/"):
        return "must lie below the directory"
    return None


def folder_of(template: str, record: SinkRecord) -> str:
    """Return the folder of a record below the directory. Raise DataError for a missing field."""

    def replaced(found: re.Match[str]) -> str:
        word, _, argument = found[1].partition(":")
        if word == "topic":
            return _safe(record.topic)
        if word == "partition":
            return str(record.kafka_partition)
        if word == "timestamp":
            moment = datetime.fromtimestamp((record.timestamp or 0) / 1000, UTC)
            return "/".join(_safe(part) for part in moment.strftime(argument).split("/"))
        return _safe(str(_field(record.value, argument)))

    return _PLACEHOLDER.sub(replaced, template)


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Struct | dict) and name in value:
        return value[name]
    raise DataError(f"path.format: the value has no field {name}")


def _safe(text: str) -> str:
    """Return text as one part of a path. Empty text and dots become names as well."""
    safe = _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)
    return safe if safe not in ("", ".", "..") else f"_{safe}"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits at which a roll ends; 0 is no limit."""

    records: int
    size_bytes: int
    interval_ms: int


@dataclass(slots=True)
class Roll:
    """The records that were put since the last roll of one partition."""

    began_ms: int
    start: int | None = None
    end: int = -1
    records: int = 0
    size_bytes: int = 0
    contents: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, offset: int, folder: str, content: Any, size: int) -> None:
        self.skip(offset)
        self.contents.setdefault(folder, []).append(content)
        self.records += 1
        self.size_bytes += size

    def skip(self, offset: int) -> None:
        """Extend the range by a record that is in no file, because it was bad."""
        if self.start is None:
            self.start = offset
        self.end = offset

    def is_full(self, limits: Limits, now_ms: int) -> bool:
        if self.start is None:
            return False
        return (
            0 < limits.records <= self.records
            or 0 < limits.size_bytes <= self.size_bytes
            or 0 < limits.interval_ms <= now_ms - self.began_ms
        )
