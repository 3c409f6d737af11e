"""The schema oracle: Apache Kafka's own message schemas, read and typed for tests.

The JSON files are not part of the repository. They are looked for in the folder that
`MOLDAU_KAFKA_MESSAGES` names, else in `../shared/kafka-messages` beside the checkout; tests that
need them carry `needs_schemas` and skip with the reason where there are none.

The folder holds Kafka 4.3.1's schemas, and one beside it with the suffix `-4.4` those that are new
in Kafka 4.4.0 or other than before.

Everything here comes from those files and from what Kafka's message generator makes of them;
nothing is imported from `moldau`, so that it can be held against our own declarations.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

FOLDER_VARIABLE: Final = "MOLDAU_KAFKA_MESSAGES"
NEWER_SUFFIX: Final = "-4.4"
NOT_DECLARED: Final = frozenset(("AbortedTxn",))
"""Schemas that are no message here: a row of `.txnindex` is read and written by the log."""
NO_UPPER_BOUND: Final = 32767
ZERO_UUID: Final = bytes(16)

PRIMITIVE_TYPES: Final = frozenset(
    ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64")
    + ("string", "bytes", "uuid", "records")
)

_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty (`none`) where lowest > highest."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read `"none"`, `"3"`, `"3+"` or `"3-5"`."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), NO_UPPER_BOUND)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def meets(self, others: Versions) -> bool:
        """Whether a version is in both ranges."""
        return self.lowest <= others.highest and others.lowest <= self.highest

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.highest == NO_UPPER_BOUND:
            return f"{self.lowest}+"
        return f"{self.lowest}-{self.highest}" if self.lowest < self.highest else f"{self.lowest}"


NO_VERSIONS: Final = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field as its schema declares it. `tag` is None for a field that is never tagged.

    Names begin with a capital here. Some files write a small letter; Kafka's generator takes
    either, so the case of the first letter says nothing.
    """

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    flexible: Versions | None  # None: as the message
    ignorable: bool
    map_key: bool
    zero_copy: bool
    default_text: str  # "" where the schema names none
    entity_type: str
    about: str

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type without the array brackets."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """A struct that is not in an array."""
        return not self.is_array and self.type not in PRIMITIVE_TYPES

    @property
    def has_struct_elements(self) -> bool:
        return self.is_array and self.element_type not in PRIMITIVE_TYPES

    @property
    def default(self) -> Any:
        """The default as a Python value; a struct's own default is None or `{}` (all defaults).

        The generator reads a literal JSON `null` as "no default named", so only the text "null"
        makes the default null.
        """
        text = self.default_text
        if text == "null":
            return None
        if self.is_array:
            return []
        if self.is_struct:
            return {}
        if self.type == "string":
            return text
        if self.type in ("bytes", "records"):
            return b"" if self.type == "bytes" else None
        if self.type == "uuid":
            return ZERO_UUID
        if self.type == "bool":
            return text.lower() == "true"
        if self.type == "float64":
            return float(text or 0)
        return int(text or "0", 0)


@dataclass(frozen=True, slots=True)
class StructSchema:
    """A named group of fields, shared by every place of the message that names it."""

    name: str
    versions: Versions
    fields: tuple[FieldSchema, ...]


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """One schema file."""

    name: str
    folder: str
    kind: str  # the file's "type": request, response, header, data, metadata, coordinator-key, ...
    api_key: int | None
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    latest_version_unstable: bool
    fields: tuple[FieldSchema, ...]
    structs: Mapping[str, StructSchema]
    about: str = ""

    def struct_of(self, field: FieldSchema) -> StructSchema:
        """The struct that a struct field or an array of structs names."""
        return self.structs[field.element_type]


def folder() -> Path | None:
    """Where the schemas are, or None."""
    named = os.environ.get(FOLDER_VARIABLE)
    beside = Path(__file__).resolve().parents[2] / "shared" / "kafka-messages"
    path = Path(named) if named else beside
    return path if (path / "clients" / "ApiVersionsRequest.json").is_file() else None


def _files(root: Path) -> list[Path]:
    """The schema files of Kafka 4.4.0, in order of folder and file; without its own they are those
    of 4.3.1."""
    found: dict[tuple[str, str], Path] = {}
    for folder in (root, root.with_name(root.name + NEWER_SUFFIX)):
        found |= {(path.parent.name, path.name): path for path in folder.glob("*/*.json")}
    return [found[key] for key in sorted(found) if found[key].stem not in NOT_DECLARED]


needs_schemas = pytest.mark.skipif(
    folder() is None, reason=f"no Kafka message schemas; name their folder in {FOLDER_VARIABLE}"
)


def parse_json_with_comments(text: str) -> Any:
    """JSON in which `//` and `/* */` comments may stand outside of strings."""
    return json.loads(_STRING_OR_COMMENT.sub(lambda match: match.group(1) or " ", text))


@functools.cache
def messages() -> Mapping[str, MessageSchema]:
    """Every schema by its name, in order of folder and file; empty where there is no oracle."""
    root = folder()
    if root is None:
        return {}
    found = [_read_message(path) for path in _files(root)]
    by_name = {message.name: message for message in found}
    assert len(by_name) == len(found), "two schema files declare one name"
    return by_name


def message(name: str) -> MessageSchema:
    """The schema of that name, as `FetchRequest`."""
    return messages()[name]


def living_messages() -> list[str]:
    """The names of the messages that have a valid version; ZooKeeper's have none any more."""
    return [name for name, schema in messages().items() if schema.versions]


def message_versions() -> list[tuple[str, int]]:
    """Each (message name, version) that Kafka can write."""
    return [(name, version) for name, schema in messages().items() for version in schema.versions]


def _read_message(path: Path) -> MessageSchema:
    source = parse_json_with_comments(path.read_text(encoding="utf-8"))
    structs: dict[str, StructSchema] = {}
    for common in source.get("commonStructs", ()):
        _read_struct(common["name"], common, structs)
    return MessageSchema(
        name=source["name"],
        folder=path.parent.name,
        kind=source["type"],
        api_key=source.get("apiKey"),
        versions=Versions.parse(source["validVersions"]),
        flexible=Versions.parse(source.get("flexibleVersions", "none")),
        listeners=tuple(source.get("listeners", ())),
        latest_version_unstable=source.get("latestVersionUnstable", False),
        fields=_read_fields(source.get("fields", ()), structs),
        structs=structs,
        about=source.get("about", ""),
    )


def _read_struct(name: str, source: Mapping[str, Any], structs: dict[str, StructSchema]) -> None:
    fields = _read_fields(source["fields"], structs)
    assert name not in structs, f"{name} is declared twice"
    structs[name] = StructSchema(name, Versions.parse(source["versions"]), fields)


def _read_fields(sources: Any, structs: dict[str, StructSchema]) -> tuple[FieldSchema, ...]:
    return tuple(_read_field(source, structs) for source in sources)


def _read_field(source: Mapping[str, Any], structs: dict[str, StructSchema]) -> FieldSchema:
    tagged = Versions.parse(source.get("taggedVersions", "none"))
    versions = Versions.parse(source["versions"]) if "versions" in source else tagged
    flexible = source.get("flexibleVersions")
    if source.get("fields"):
        struct_name = source["type"].removeprefix("[]")
        _read_struct(struct_name, {"versions": str(versions), **source}, structs)
    return FieldSchema(
        name=source["name"][0].upper() + source["name"][1:],
        type=source["type"],
        versions=versions,
        nullable=Versions.parse(source.get("nullableVersions", "none")),
        tag=source.get("tag"),
        tagged=tagged,
        flexible=None if flexible is None else Versions.parse(flexible),
        ignorable=source.get("ignorable") in (True, "true"),  # one file writes "false"
        map_key=source.get("mapKey", False),
        zero_copy=source.get("zeroCopy", False),
        default_text=_default_text(source.get("default")),
        entity_type=source.get("entityType", ""),
        about=source.get("about", ""),
    )


def _default_text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
