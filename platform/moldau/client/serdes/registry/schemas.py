"""What a Schema Registry stores, and how it writes that in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeVar

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.values.schema import AVRO, Reference, Schema

LATEST: Final = "latest"

_NOT_FOUND: Final = 404

T = TypeVar("T")


class RegistryError(MoldauError):
    """The registry rejected a request or did not answer. `status` is the HTTP status and `code` the
    registry's finer error code (40401: no such subject); both are 0 if no answer came. `retriable`
    means that the request may succeed later."""

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

    @property
    def is_of_record(self) -> bool:
        """Whether the registry works but does not have the requested item, for example because a
        record names a schema that does not exist."""
        return self.status == _NOT_FOUND and self.code // 100 == _NOT_FOUND


class OddAnswer(Exception):
    """An answer that does not follow the registry's API."""

    def __init__(self, expected: str, found: object) -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    guid: str | None = None


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema is compatible, and the problems, if the registry reports them."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a subject or the global one. `others` are fields without a name here."""

    compatibility: str | None = None
    normalize: bool | None = None
    alias: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a request, with only the fields that are set."""
        body = dict(self.others)
        for name in ("compatibility", "normalize", "alias"):
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        return body


def schema_of(body: object) -> Schema:
    """Return the schema in an answer. As all readers here, raise OddAnswer for other answers."""
    return Schema(
        want(body, "schema", str),
        _maybe(body, "schemaType", str) or AVRO,
        tuple(map(_reference_of, _maybe(body, "references", list) or ())),
        _maybe(body, "metadata", dict),
        _maybe(body, "ruleSet", dict),
    )


def _reference_of(body: object) -> Reference:
    return Reference(
        want(body, "name", str), want(body, "subject", str), want(body, "version", int)
    )


def registered_of(body: object) -> RegisteredSchema:
    """Return the version of a subject in an answer."""
    return RegisteredSchema(
        want(body, "subject", str),
        want(body, "version", int),
        want(body, "id", int),
        schema_of(body),
        _maybe(body, "guid", str),
    )


def place_of(body: object) -> tuple[str, int]:
    """Return the subject and the version number in an answer."""
    return want(body, "subject", str), want(body, "version", int)


def compatibility_of(body: object) -> Compatibility:
    """Return the result of a compatibility check in an answer."""
    messages = _maybe(body, "messages", list) or ()
    return Compatibility(want(body, "is_compatible", bool), tuple(map(str, messages)))


def config_of(body: object) -> Config:
    """Return the configuration in an answer. GET and PUT answer with different level names."""
    level = _maybe(body, "compatibilityLevel", str) or _maybe(body, "compatibility", str)
    named = ("compatibilityLevel", "compatibility", "normalize", "alias")
    return Config(
        level,
        _maybe(body, "normalize", bool),
        _maybe(body, "alias", str),
        {name: value for name, value in _object(body).items() if name not in named},
    )


def want(body: object, name: str, kind: type[T]) -> T:
    """Return a field of an answer. Raise OddAnswer if it is missing or of another type."""
    found = _object(body).get(name)
    if type(found) is not kind:
        raise OddAnswer(f"an object with the field {name}, {_KINDS[kind]}", body)
    return found


def _maybe(body: object, name: str, kind: type[T]) -> T | None:
    """Return a field of an answer, or None if it is missing or null."""
    return None if _object(body).get(name) is None else want(body, name, kind)


def _object(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise OddAnswer("an object", body)
    return body


def number_of(body: object) -> int:
    """Return an answer that is a single whole number."""
    if type(body) is not int:
        raise OddAnswer("a whole number", body)
    return body


def text_of(body: object) -> str:
    """Return an answer that is a single text."""
    if not isinstance(body, str):
        raise OddAnswer("text", body)
    return body


def many(read: Callable[[object], T]) -> Callable[[object], list[T]]:
    """Return a function that reads a list, each item with `read`."""

    def read_all(body: object) -> list[T]:
        if not isinstance(body, list):
            raise OddAnswer("a list", body)
        return list(map(read, body))

    return read_all


_KINDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    dict: "an object",
    int: "a whole number",
    list: "a list",
    str: "text",
}
