"""A setting is one row: name, type, default, documentation, check, and when it may be changed.

Everything that needs a setting reads its row: parsing, error messages, `--help`, the reference
pages, DescribeConfigs. A row has the type of its value, so `settings[replica_lag_time_max_ms]` is
an `int` for mypy. Rows do not change after they are created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack, cast, overload

from moldau.config.checks import Check
from moldau.config.kinds import PASSWORD, Kind, kind_of
from moldau.config.secret import Secret

V = TypeVar("V")
S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)


class Absent(Enum):
    """Marks a setting without a default: it must be given, or has another setting's value."""

    REQUIRED = "required"
    INHERITED = "inherited"


REQUIRED: Final = Absent.REQUIRED
INHERITED: Final = Absent.INHERITED


class UpdateMode(Enum):
    """When a value may change: only at a restart, or at run time, for one broker or for all."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


# As a row writes them.
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE
PER_BROKER: Final = UpdateMode.PER_BROKER
HIGH: Final = Importance.HIGH
LOW: Final = Importance.LOW


class Fallback(Generic[T_co]):
    """The setting whose value is used if this one was not given: `log.retention.minutes`, times
    60,000, for `log.retention.ms`."""

    __slots__ = ("convert", "setting")

    def __init__(self, setting: Setting[S | None], convert: Callable[[S], T_co]) -> None:
        self.setting: Setting[Any] = setting
        self.convert: Callable[[Any], T_co] = convert


class SettingOptions(TypedDict, Generic[V], total=False):
    """The options of a row that most settings do not need."""

    check: Check[V]
    dynamic: UpdateMode
    secret: bool  # hides a value that is no password: an address with a key
    importance: Importance
    aliases: tuple[str, ...]  # earlier names, still accepted
    deprecated: str  # what to use instead
    fallback: Fallback[V]


class Setting(Generic[T_co]):
    """A row of a setting table; `default` is a value, None, REQUIRED or INHERITED."""

    __slots__ = (
        "aliases",
        "check",
        "default",
        "deprecated",
        "doc",
        "dynamic",
        "fallback",
        "importance",
        "kind",
        "name",
        "secret",
    )

    @overload
    def __init__(
        self: Setting[V | None],
        name: str,
        kind: Kind[V] | type[V],
        default: None,
        doc: str,
        **options: Unpack[SettingOptions[V]],
    ) -> None: ...

    @overload
    def __init__(
        self: Setting[V],
        name: str,
        kind: Kind[V] | type[V],
        default: V | Absent,
        doc: str,
        **options: Unpack[SettingOptions[V]],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        kind: Kind[Any] | type[Any],
        default: Any,
        doc: str,
        **options: Unpack[SettingOptions[Any]],
    ) -> None:
        self.name = name
        self.kind: Kind[Any] = kind_of(kind)
        self.default: T_co | Absent = default
        self.doc = doc
        self.check: Check[Any] | None = options.get("check")
        self.dynamic = options.get("dynamic", UpdateMode.READ_ONLY)
        self.secret = options.get("secret", False) or self.kind is PASSWORD
        self.importance = options.get("importance", Importance.MEDIUM)
        self.aliases = options.get("aliases", ())
        self.deprecated = options.get("deprecated")
        self.fallback: Fallback[Any] | None = options.get("fallback")
        self._assert_sound()

    def _assert_sound(self) -> None:
        assert self.name, "a setting has a name"
        assert self.name == self.name.strip(), f"{self.name!r} has blanks around it"
        assert self.doc.strip(), f"{self.name} is not documented"
        inherits = self.default is INHERITED
        assert not inherits or self.fallback is not None, f"{self.name} inherits from nothing"
        if self.default is not None and not isinstance(self.default, Absent):
            assert self._is_of_kind(self.default), (
                f"{self.name}: its default is no {self.kind.name}"
            )
            fits = self.check is None or self.check.holds(self.default)
            shown = self.write(self.default)
            assert fits, f"{self.name}: its own default {shown} is not allowed"

    def _is_of_kind(self, default: object) -> bool:
        """Whether the default has the row's type. It is checked at run time, because mypy accepts a
        row of int with a text as its default as a row of object."""
        if self.kind is PASSWORD:
            return isinstance(default, Secret)
        try:
            return bool(self.kind.read(self.kind.write(default)) == default)
        except (ValueError, TypeError):
            return False

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.check is None:
            return self.kind.allowed
        return f"{self.kind.name}: {self.check.allowed}"

    @property
    def wanted(self) -> str:
        """The allowed values, in words for a message about a value of another kind."""
        if self.check is None:
            return self.kind.allowed
        return f"{self.kind.allowed.partition(' from ')[0]}, {self.check.allowed}"

    def write(self, value: object) -> str | None:
        """Return `value` as text; None for null and for a secret."""
        return None if value is None or self.secret else self.kind.write(cast(T_co, value))

    def __repr__(self) -> str:
        return f"Setting({self.name})"


def rows_in(module: Mapping[str, object]) -> tuple[Setting[Any], ...]:
    """Return the rows that a module has defined so far, in their order: `rows_in(globals())`."""
    return tuple(each for each in module.values() if isinstance(each, Setting))
