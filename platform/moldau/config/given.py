"""The values that were given for settings, with their sources: the common result of all loaders.

`GivenValue` is plain text (or a list of texts, or null) with its `Source`. A `Layer` is everything
from one file, the environment or the command line. The setting table interprets the text later.
Loaders only return text with a UTF-8 form: other text could be neither printed nor sent.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from moldau.deferred import dataclass, deferred_pattern

# Text; the items of a list, if the format has lists; or null, if the format has nulls.
RawValue: TypeAlias = str | tuple[str, ...] | None


class SourceKind(Enum):
    """The kind of a value's source; `code` is its number in a broker's DescribeConfigs response."""

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
    """A place that a user can find: a line of a file, an environment variable, ..."""

    kind: SourceKind
    where: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.where if self.kind is SourceKind.FILE else f"{self.kind.label} {self.where}"
        return f"{place.strip()}, line {self.line}" if self.line is not None else place.strip()


@dataclass(frozen=True, slots=True)
class GivenValue:
    """One name and the value given for it. Its repr has no value: it may be a secret.

    If `value` came from a config provider, `reference` is the text that referred to it: only the
    reference may be shown or stored, whatever the setting's type is.
    """

    name: str
    value: RawValue
    source: Source
    reference: str | None = None

    @property
    def showable(self) -> RawValue:
        """The value or reference that may be shown, if the setting is not a secret."""
        return self.value if self.reference is None else self.reference

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name} from {self.source})"


Layer: TypeAlias = tuple[GivenValue, ...]


_SURROGATE = deferred_pattern("[\ud800-\udfff]")


def is_writable(text: str) -> bool:
    """Whether `text` has a UTF-8 form: escapes and undecodable bytes can yield lone surrogates."""
    return text.isascii() or _SURROGATE.search(text) is None


def overrides(values: dict[str, RawValue]) -> Layer:
    """Return the layer of settings that the program itself gives."""
    source = Source(SourceKind.OVERRIDE)
    return tuple(GivenValue(name, value, source) for name, value in values.items())
