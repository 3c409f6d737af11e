"""What the formats have in common: parsed schemas, and the differences that break readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self, TypeAlias

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.values.schema import DEPTH_MAX, Reference, Schema

Resolve: TypeAlias = Callable[[Reference], Schema]
"""Returns a referenced schema. Raises InvalidSchema if there is none."""

WORK_MAX = 2_000_000
"""Parts of schemas: some seconds."""
_CHARS_A_PART = 16


class InvalidSchema(Exception):
    """The text is not a schema of its type, or a reference is missing."""


def no_references(reference: Reference) -> Schema:
    """Raise InvalidSchema: a schema that stands alone refers to nothing."""
    raise InvalidSchema(f"it refers to {reference.name}, which it does not have")


@contextmanager
def as_invalid() -> Iterator[None]:
    """Raise InvalidSchema for what makes a schema unusable, but not for a missing library."""
    try:
        yield
    except ConfigError as error:
        if "library" in error.context:
            raise
        raise InvalidSchema(error.reason) from error
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None


class TooMuchWork(Exception):
    """A check compares more parts of schemas than one may."""


class Work:
    """What one check may still cost, whatever the schemas are: records within records multiply the
    parts to compare, and a level may be about a thousand versions."""

    __slots__ = ("_left",)

    def __init__(self, parts: int = WORK_MAX) -> None:
        self._left = parts

    def spend(self, parts: int = 1) -> None:
        """Count parts that are compared next. Raise TooMuchWork."""
        self._left -= parts
        if self._left < 0:
            raise TooMuchWork

    def spend_text(self, text: str) -> None:
        """Count a text that is parsed next. Raise TooMuchWork."""
        self.spend(1 + len(text) // _CHARS_A_PART)


@dataclass(frozen=True, slots=True)
class Difference:
    """A reason why one schema cannot read the data of another one."""

    kind: str
    path: str
    description: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.kind}', description:'{self.description}', path:'{self.path}'}}"


class ParsedSchema(Protocol):
    """A parsed schema."""

    @property
    def canonical(self) -> str:
        """The text that is stored."""

    @property
    def identity(self) -> str:
        """The text by which schemas are the same or not."""

    @property
    def normalized(self) -> str:
        """The canonical text without differences of order that mean nothing."""

    def differences(self, writer: Self, work: Work) -> list[Difference]:
        """Return why this schema cannot read what was written with `writer`; [] if it can. Raise
        TooMuchWork."""

    def text(self, format: str) -> str | None:
        """Return the schema in another format, such as `serialized`; None if there is no such."""


def collect(schema: Schema, resolve: Resolve, depth: int = 0) -> dict[str, Schema]:
    """Return all schemas that a schema refers to by their names, each after those that it needs
    itself."""
    if depth > DEPTH_MAX:
        raise InvalidSchema("its references are too deep or go in a circle")
    found: dict[str, Schema] = {}
    for each in schema.references:
        whole = resolve(each)
        found = {**found, **collect(whole, resolve, depth + 1)}
        found.setdefault(each.name, whole)
    return found
