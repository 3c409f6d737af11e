"""What a Schema Registry keeps, and how it writes it in JSON.

Invariant: a `Schema` equals another one when its text, type and references do, so that it can be
the key of a cache; metadata and rules are carried along and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.errors import MoldauError

AVRO: Final = "AVRO"
PROTOBUF: Final = "PROTOBUF"
JSON: Final = "JSON"

LATEST: Final = "latest"


class RegistryError(MoldauError):
    """The registry refused, or could not be asked. `status` is HTTP's and `code` its own finer one
    (40401: no such subject), both 0 where no answer came; `retriable` where it may work later."""

    def __init__(
        self,
        reason: str,
        /,
        *,
        status: int = 0,
        code: int = 0,
        retriable: bool = False,
        **facts: Any,
    ) -> None:
        context = {"status": status, "code": code} if status else {}
        super().__init__(reason, **context, **facts)
        self.status = status
        self.code = code
        self.retriable = retriable


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that one needs: what it is called there, and where it is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it is written down. `type` is AVRO, PROTOBUF or JSON."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)
    rules: Mapping[str, Any] | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """As a request has it."""
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


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    guid: str | None = None


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema may follow, and what speaks against it, where the registry says."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """What holds for a subject, or for all. `others` are fields that are not named here."""

    compatibility: str | None = None
    normalize: bool | None = None
    alias: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a request has it: only what is set."""
        body = dict(self.others)
        for name in ("compatibility", "normalize", "alias"):
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        return body


def schema_of(body: Mapping[str, Any]) -> Schema:
    """The schema in an answer."""
    references = tuple(
        Reference(want(each, "name", str), want(each, "subject", str), want(each, "version", int))
        for each in body.get("references") or ()
    )
    return Schema(
        want(body, "schema", str),
        body.get("schemaType") or AVRO,
        references,
        body.get("metadata"),
        body.get("ruleSet"),
    )


def registered_of(body: Mapping[str, Any]) -> RegisteredSchema:
    """The version in an answer."""
    return RegisteredSchema(
        want(body, "subject", str),
        want(body, "version", int),
        want(body, "id", int),
        schema_of(body),
        body.get("guid"),
    )


def config_of(body: Mapping[str, Any]) -> Config:
    """The configuration in an answer: asked for it is called otherwise than when it is set."""
    others = dict(body)
    level = others.pop("compatibilityLevel", None) or others.pop("compatibility", None)
    others.pop("compatibility", None)
    return Config(level, others.pop("normalize", None), others.pop("alias", None), others)


def want(body: Any, name: str, kind: type) -> Any:
    """A field of an answer; RegistryError when the registry talks otherwise."""
    found = body.get(name) if isinstance(body, Mapping) else None
    if type(found) is not kind:
        raise RegistryError(
            "the registry's answer is not of its API", field=name, found=str(found)[:80]
        )
    return found
