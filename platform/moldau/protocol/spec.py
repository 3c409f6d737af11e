"""The declaration of a message as plain data, for the codec, the oracle tests and the fuzzer.

A spec is made from the class on first use and never changes. Fields are in wire order. A struct is
shared by all versions; the methods of `FieldSpec` say what applies to one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias, final

from moldau.protocol.types import Entity, Scalar
from moldau.protocol.versions import Versions


class Missing(Enum):
    """The default of a required field, which must be passed to the constructor."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
OWN_TAGS_FROM: Final = 10_000
"""Tags from here on are of fields that Kafka does not have."""


class Kind(Enum):
    """The kind of a message; the values are those of the schema files."""

    REQUEST = "request"
    RESPONSE = "response"
    HEADER = "header"
    METADATA = "metadata"
    LOG_KEY = "coordinator-key"
    LOG_VALUE = "coordinator-value"
    DATA = "data"


class StructSpec:
    """A struct: its class and its fields in wire order."""

    __slots__ = ("cls", "fields", "name", "schema_name")

    def __init__(
        self, name: str, schema_name: str, cls: type[Any], fields: tuple[FieldSpec, ...]
    ) -> None:
        self.name = name
        self.schema_name = schema_name
        self.cls = cls
        self.fields = fields

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def field(self, name: str) -> FieldSpec:
        """Return the field with that Python name. Raise KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field {name!r}")


@final
class MessageSpec(StructSpec):
    """A message: a struct that is sent by itself, with its key and versions."""

    __slots__ = ("flexible", "key", "kind", "latest_unstable", "listeners", "versions")

    kind: Kind
    key: int | None
    versions: Versions
    flexible: Versions
    latest_unstable: bool
    listeners: tuple[str, ...]

    @property
    def flexible_since(self) -> int | None:
        """The first flexible version; None if there is none."""
        return self.flexible.first if self.flexible else None

    @property
    def stable_versions(self) -> Versions:
        """The versions to offer to peers: all but an unstable latest one."""
        first, last = self.versions
        return Versions(first, last - 1) if self.latest_unstable else self.versions

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return version in self.flexible

    def is_unstable(self, version: int) -> bool:
        """Whether this version may still change in Apache Kafka."""
        return self.latest_unstable and version == self.versions.last


class ArrayOf(NamedTuple):
    """`list[element]`."""

    element: Scalar | StructSpec


FieldType: TypeAlias = Scalar | StructSpec | ArrayOf


class FieldSpec(NamedTuple):
    """One field: from version `since` to `until` (inclusive); None means the message's own limit.

    `slot` is the attribute in which instances keep the value, `entity` what the value names.
    """

    name: str
    schema_name: str
    type: FieldType
    since: int | None
    until: int | None
    tag: int | None
    tagged_since: int | None
    nullable: bool
    nullable_since: int | None
    ignorable: bool
    map_key: bool
    flexible: bool
    default: Any
    default_factory: Callable[[], Any] | Missing
    slot: str
    entity: Entity | None

    @property
    def is_late(self) -> bool:
        """Whether the slot holds None until the default struct is first read."""
        return self.slot != self.name

    def is_present(self, version: int) -> bool:
        """Whether this version has the field."""
        if self.since is not None and version < self.since:
            return False
        return self.until is None or version <= self.until

    def is_nullable(self, version: int) -> bool:
        """Whether the field may be null in this version."""
        return self.nullable and (self.nullable_since is None or version >= self.nullable_since)

    def is_tagged(self, version: int) -> bool:
        """Whether the field is in the tag section in this version."""
        if self.tag is None or not self.is_present(version):
            return False
        return self.tagged_since is None or version >= self.tagged_since

    @property
    def is_own(self) -> bool:
        """Whether the field is moldau's: Kafka's readers pass over its tag."""
        return self.tag is not None and self.tag >= OWN_TAGS_FROM

    @property
    def is_required(self) -> bool:
        """Whether the constructor needs a value for the field."""
        return self.default is MISSING and self.default_factory is MISSING

    def make_default(self) -> Any:
        """Return a new default; for a required field the zero value of its type."""
        if self.default is not MISSING:
            return self.default
        if not isinstance(self.default_factory, Missing):
            return self.default_factory()
        if isinstance(self.type, Scalar):
            return self.type.zero
        return [] if isinstance(self.type, ArrayOf) else blank(self.type)


def blank(spec: StructSpec) -> Any:
    """Return an instance with all fields at their defaults; required ones are zero or empty."""
    return spec.cls(**{field.name: field.make_default() for field in spec.fields})
