"""One setting is one row: name, type, default, documentation, check, and when it may be changed.

Everything that knows a setting reads its row: parsing, error messages, `--help`, the reference
pages, DescribeConfigs. A row is typed by its value, so `settings[replica_lag_time_max_ms]` is an
`int` for mypy. Rows do not change after they are made.
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
    """Instead of a default: the user must say it, or another setting says it."""

    REQUIRED = "required"
    INHERITED = "inherited"


REQUIRED: Final = Absent.REQUIRED
INHERITED: Final = Absent.INHERITED


class UpdateMode(Enum):
    """When a value may change: at a restart only, or while running for one broker or for all."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Fallback(Generic[T_co]):
    """Where a value comes from when its own setting was not given: `log.retention.minutes` for
    `log.retention.ms`, times 60,000."""

    __slots__ = ("convert", "setting")

    def __init__(self, setting: Setting[S | None], convert: Callable[[S], T_co]) -> None:
        self.setting: Setting[Any] = setting
        self.convert: Callable[[Any], T_co] = convert


class SettingOptions(TypedDict, Generic[V], total=False):
    """What most settings do not need to say."""

    check: Check[V]
    dynamic: UpdateMode
    secret: bool  # the value is hidden though its type is not a password: an address with a key
    importance: Importance
    aliases: tuple[str, ...]  # earlier names, still understood
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
        """Told at run time, as mypy takes a row of int with a text for its default for one of
        object."""
        if self.kind is PASSWORD:
            return isinstance(default, Secret)
        try:
            return bool(self.kind.read(self.kind.write(default)) == default)
        except (ValueError, TypeError):
            return False

    @property
    def allowed(self) -> str:
        """What a value must be, in words."""
        if self.check is None:
            return self.kind.allowed
        return f"{self.kind.name}: {self.check.allowed}"

    @property
    def wanted(self) -> str:
        """As `allowed`, for a sentence about a value of another kind."""
        if self.check is None:
            return self.kind.allowed
        return f"{self.kind.allowed.partition(' from ')[0]}, {self.check.allowed}"

    def write(self, value: object) -> str | None:
        """`value` as text; a secret's is never in it."""
        return None if value is None or self.secret else self.kind.write(cast(T_co, value))

    def __repr__(self) -> str:
        return f"Setting({self.name})"


def rows_in(module: Mapping[str, object]) -> tuple[Setting[Any], ...]:
    """The rows that a module has defined so far, in their order: `rows_in(globals())`."""
    return tuple(each for each in module.values() if isinstance(each, Setting))
