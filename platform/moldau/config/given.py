"""What was given for a setting, and where: the common form that every loader produces.

`Given` is plain text (or a list of texts, or null) beside its `Source`. A `Layer` is all that one
file, the environment or the command line gave. Meaning comes later, from the setting table.
Loaders give only text that is writable: what has no UTF-8 form could be neither printed nor sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

# The text, the items of a list where the format has lists, or null where the format has nulls.
RawValue: TypeAlias = str | tuple[str, ...] | None


class SourceKind(Enum):
    """Where a value comes from; `code` is what DescribeConfigs answers for a broker."""

    DEFAULT = ("default", 5)
    FILE = ("file", 4)
    ENVIRONMENT = ("environment variable", 4)
    COMMAND_LINE = ("command line", 4)
    OVERRIDE = ("override", 4)
    DYNAMIC_DEFAULT = ("dynamic setting of all brokers", 3)
    DYNAMIC_BROKER = ("dynamic setting of this broker", 2)
    TOPIC = ("topic", 1)
    CLIENT_METRICS = ("client metrics subscription", 7)
    GROUP = ("group", 8)

    def __init__(self, label: str, code: int) -> None:
        self.label = label
        self.code = code


@dataclass(frozen=True, slots=True)
class Source:
    """A place that a person can go to: a line of a file, an environment variable, ..."""

    kind: SourceKind
    where: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.where if self.kind is SourceKind.FILE else f"{self.kind.label} {self.where}"
        return f"{place.strip()}, line {self.line}" if self.line is not None else place.strip()


@dataclass(frozen=True, slots=True)
class Given:
    """One name and the value given for it. Its repr has no value: it may be a secret.

    `reference` is what was written where `value` came from a config provider: only the reference
    may be shown or stored, whatever the setting's type.
    """

    name: str
    value: RawValue
    source: Source
    reference: str | None = None

    @property
    def showable(self) -> RawValue:
        """What may be shown of it, if the setting is no secret."""
        return self.value if self.reference is None else self.reference

    def __repr__(self) -> str:
        return f"Given({self.name} from {self.source})"


Layer: TypeAlias = tuple[Given, ...]


_SURROGATE = re.compile("[\ud800-\udfff]")


def is_writable(text: str) -> bool:
    """Whether `text` has a UTF-8 form: escapes and undecodable bytes can bring half characters."""
    return text.isascii() or _SURROGATE.search(text) is None


def overrides(values: dict[str, RawValue]) -> Layer:
    """The layer of what a program sets itself."""
    source = Source(SourceKind.OVERRIDE)
    return tuple(Given(name, value, source) for name, value in values.items())
