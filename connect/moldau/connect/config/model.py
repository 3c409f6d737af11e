"""`ConfigModel`: the settings of a plugin, as one pydantic model.

    class FileSinkConfig(ConfigModel):
        file: str = key("file", doc="The file to write to.", importance="high")
        sync_ms: int = key("sync.ms", 1000, doc="Milliseconds between two fsyncs.", ge=1)

        def check(self) -> Iterable[Problem]:
            if self.sync_ms > 60_000 and "sync.ms" not in self.wrong:
                yield Problem("sync.ms", "more than a minute of data would be lost")

    config = FileSinkConfig.of({"file": "/data/out", "sync.ms": "500"})

Each setting is read by itself, so an invalid one hides no other problem: the others are still
checked, and so are the conditions in `check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, PydanticUseDefault

from moldau.connect.config.kinds import ConfigType, choices_of, kind_of, parsed, shown
from moldau.deferred import dataclass
from moldau.errors import ConfigError

Importance = Literal["high", "medium", "low"]
NO_ORDER = -1
"""The order of a setting that belongs to no group, as Kafka shows it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a setting, in words that say what to do."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting as the REST API, the docs and the CLI show it."""

    name: str
    attribute: str
    kind: ConfigType
    required: bool
    default: Any
    doc: str
    importance: str
    group: str | None
    order: int
    width: str
    display: str
    dependents: tuple[str, ...]
    choices: tuple[str, ...]
    also: tuple[str, ...]

    @property
    def shown_default(self) -> str | None:
        return None if self.required else shown(self.kind, self.default)


def key(
    name: str,
    default: Any = PydanticUndefined,
    *,
    doc: str = "",
    importance: Importance = "medium",
    **more: Any,
) -> Any:
    """Define a setting. Without `default` it is required.

    `more`: `kind` (if the annotation does not define it: "LONG", "CLASS"), `group` and `order` in
    it, `width`, `display`, `dependents`, `also` (other names for the same setting), `rank` (0, or
    more for settings that are listed after the others), and pydantic's constraints (`ge`, `le`,
    `pattern`, ...).
    """
    names = ("kind", "group", "order", "width", "display", "dependents", "also", "rank")
    details = {each: more.pop(each) for each in names if each in more}
    kind = details.get("kind")
    return Field(
        default,
        alias=name,
        description=doc,
        json_schema_extra={
            "importance": importance,
            "kind": None if kind is None else ConfigType(kind).value,
            "group": details.get("group"),
            "order": details.get("order"),
            "width": details.get("width", "none"),
            "display": details.get("display", name),
            "dependents": list(details.get("dependents", ())),
            "also": list(details.get("also", ())),
            "rank": details.get("rank", 0),
        },
        **more,
    )


class ConfigModel(BaseModel):
    """The base class of settings: a subclass has one `key` for each. All values may be texts."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, validate_default=False)

    open_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes of keys that are known although no field names them, such as `connection.`."""

    offers_choices: ClassVar[bool] = True
    """Whether the values of an enum are recommended; Kafka recommends them for few settings."""

    _originals: dict[str, str] = PrivateAttr(default_factory=dict)
    _wrong: dict[str, list[str]] = PrivateAttr(default_factory=dict)

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: Any, info: Any) -> Any:
        if value is None:
            raise PydanticUseDefault
        setting = cls.attributes()[info.field_name]
        return parsed(setting.kind, setting.choices, value)

    @classmethod
    def of(cls, props: Mapping[str, str | None]) -> Self:
        """Return the settings in `props`. Raise ConfigError with all problems."""
        config = cls.read(props)
        problems = [*config.problems(), *config.check()]
        if problems:
            raise ConfigError("; ".join(problem.text for problem in problems))
        return config

    @classmethod
    def read(cls, props: Mapping[str, str | None]) -> Self:
        """Return the settings in `props` without an error: an invalid one has its default, or None
        without a default, and its name is in `wrong`."""
        given = cls.renamed(props)
        config = cls.model_construct()
        config._originals = {name: text for name, text in given.items() if text is not None}
        for setting in cls.settings():
            value = config._originals.get(setting.name)
            if value is not None:
                config._take(setting, value)
            elif setting.required:
                config._miss(
                    setting,
                    f'Missing required configuration "{setting.name}" which has no default value.',
                )
        return config

    @classmethod
    def renamed(cls, props: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return `props` with each setting under its first name. Overrides may translate values."""
        given = dict(props)
        for setting in cls.settings():
            for other in setting.also:
                if other in given:
                    value = given.pop(other)
                    given.setdefault(setting.name, value)
        return given

    def check(self) -> Iterable[Problem]:
        """Yield problems of several settings together. Check `wrong` first: a setting in it has its
        default or None. Name the setting that the user should change."""
        return ()

    def warnings(self) -> Iterable[Problem]:
        """Yield likely mistakes that are no errors, for `lint`."""
        return ()

    def recommended(self, name: str) -> Sequence[str]:
        """Return values to recommend for a setting, given the others."""
        return type(self).named()[name].choices if self.offers_choices else ()

    def is_visible(self, name: str) -> bool:
        """Whether a setting has any effect, given the others."""
        return True

    @property
    def originals(self) -> Mapping[str, str]:
        """All given settings, also those that no field names."""
        return self._originals

    @property
    def wrong(self) -> frozenset[str]:
        """The names of the settings whose values cannot be used."""
        return frozenset(self._wrong)

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the given settings that begin with `prefix`, without it."""
        return {
            name.removeprefix(prefix): text
            for name, text in self._originals.items()
            if name.startswith(prefix)
        }

    def problems(self) -> list[Problem]:
        """Return the problems of single settings."""
        return [Problem(name, text) for name, texts in self._wrong.items() for text in texts]

    @classmethod
    def settings(cls) -> tuple[ConfigKey, ...]:
        """Return the settings in order."""
        return tuple(cls.attributes().values())

    @classmethod
    def named(cls) -> dict[str, ConfigKey]:
        """Return the settings by name."""
        return {setting.name: setting for setting in cls.settings()}

    @classmethod
    def attributes(cls) -> dict[str, ConfigKey]:
        """Return the settings by attribute name."""
        known: dict[str, ConfigKey] | None = cls.__dict__.get("_known_keys")
        if known is None:
            known = _keys_of(cls)
            type.__setattr__(cls, "_known_keys", known)
        return known

    def _take(self, setting: ConfigKey, value: str) -> None:
        try:
            type(self).__pydantic_validator__.validate_assignment(self, setting.attribute, value)
        except ValidationError as error:
            told = "[hidden]" if setting.kind is ConfigType.PASSWORD else value
            for each in error.errors(include_url=False):
                reason = _reason(dict(each))
                self._miss(
                    setting, f"Invalid value {told} for configuration {setting.name}: {reason}"
                )

    def _miss(self, setting: ConfigKey, text: str) -> None:
        self._wrong.setdefault(setting.name, []).append(text)
        if setting.required:
            object.__setattr__(self, setting.attribute, None)


def _keys_of(model: type[ConfigModel]) -> dict[str, ConfigKey]:
    found: dict[str, ConfigKey] = {}
    orders: dict[str | None, int] = {}
    for attribute, field in sorted(model.model_fields.items(), key=lambda item: _rank(item[1])):
        details = field.json_schema_extra
        extra: dict[str, Any] = dict(details) if isinstance(details, dict) else {}
        group = extra.get("group")
        orders[group] = orders.get(group, 0) + 1
        given = extra.get("order")
        order = given if given is not None else (orders[group] if group else NO_ORDER)
        name = field.alias or attribute
        found[attribute] = ConfigKey(
            name=name,
            attribute=attribute,
            kind=ConfigType(extra.get("kind") or kind_of(field.annotation)),
            required=field.is_required(),
            default=None if field.is_required() else field.get_default(call_default_factory=True),
            doc=field.description or "",
            importance=str(extra.get("importance", "medium")),
            group=group,
            order=order,
            width=str(extra.get("width", "none")),
            display=str(extra.get("display", name)),
            dependents=tuple(extra.get("dependents", ())),
            choices=choices_of(field.annotation),
            also=tuple(extra.get("also", ())),
        )
    return found


def _rank(field: FieldInfo) -> int:
    extra = field.json_schema_extra
    rank = extra.get("rank", 0) if isinstance(extra, dict) else 0
    return rank if isinstance(rank, int) else 0


def _reason(error: Mapping[str, Any]) -> str:
    """Return pydantic's message, in Kafka's words if Kafka has such a message."""
    limits = error.get("ctx") or {}
    match error["type"]:
        case "greater_than_equal":
            return f"Value must be at least {limits['ge']}"
        case "less_than_equal":
            return f"Value must be no more than {limits['le']}"
        case "value_error":
            return str(limits.get("error", error["msg"]))
    return str(error["msg"])
