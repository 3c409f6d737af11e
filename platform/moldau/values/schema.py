"""A schema as text, with its type and what it refers to, as a Schema Registry stores it.

Invariant: two `Schema`s are equal if their text, type and references are, so that a schema can be
the key of a cache; metadata and rules are kept and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from moldau.deferred import dataclass

AVRO: Final = "AVRO"
PROTOBUF: Final = "PROTOBUF"
JSON: Final = "JSON"

DEPTH_MAX: Final = 32
"""How deep references may go."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another schema needs: its name in that schema, its subject and its version."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as text. `type` is AVRO, PROTOBUF or JSON."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)
    rules: Mapping[str, Any] | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a request with this schema."""
        body: dict[str, Any] = {"schema": self.text}
        if self.type != AVRO:
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in self.references
            ]
        if self.metadata is not None:
            body["metadata"] = dict(self.metadata)
        if self.rules is not None:
            body["ruleSet"] = dict(self.rules)
        return body
