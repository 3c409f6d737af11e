"""ConfigInfos: the result of the validation of a config, in the JSON of Kafka's REST API.

Warnings are moldau's own: mistakes that Kafka ignores, such as a key that nothing reads. They are
not in `to_json`, because tools compare that with Kafka's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from moldau.connect.config.kinds import ConfigType, parsed, shown
from moldau.connect.config.model import ConfigKey, ConfigModel, Problem
from moldau.deferred import dataclass


@dataclass(slots=True)
class ConfigInfo:
    """A setting's definition (None if it is undefined), its value and its errors."""

    name: str
    definition: dict[str, Any] | None
    value: str | None
    recommended: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "definition": self.definition,
            "value": {
                "name": self.name,
                "value": self.value,
                "recommended_values": self.recommended,
                "errors": self.errors,
                "visible": self.visible,
            },
        }


@dataclass(slots=True)
class ConfigInfos:
    """The result of the validation of a whole config."""

    name: str
    configs: list[ConfigInfo] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    @property
    def error_count(self) -> int:
        return sum(len(config.errors) for config in self.configs)

    @property
    def errors(self) -> list[Problem]:
        """All errors, each with its key."""
        return [Problem(config.name, text) for config in self.configs for text in config.errors]

    @property
    def groups(self) -> list[str]:
        """The groups of the settings, each once, in order of appearance."""
        found = (config.definition["group"] for config in self.configs if config.definition)
        return list(dict.fromkeys(group for group in found if group is not None))

    def add_error(self, key: str, text: str) -> None:
        """Add an error to the setting of that name. An undefined setting is added with it."""
        for config in self.configs:
            if config.name == key:
                if text not in config.errors:
                    config.errors.append(text)
                return
        self.configs.append(ConfigInfo(key, None, None, errors=[text]))

    def to_json(self) -> dict[str, Any]:
        """Return the answer of `PUT /connector-plugins/{plugin}/config/validate`."""
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": self.groups,
            "configs": [config.to_json() for config in self.configs],
        }


@dataclass(frozen=True, slots=True)
class SettingsPlacement:
    """The prefix, group and order of a part's settings among those of the whole."""

    prefix: str = ""
    group: str | None = None
    """The group of all settings of the part; their own group is appended."""
    first_order: int = 0


WHOLE = SettingsPlacement()


def definition(
    setting: ConfigKey, place: SettingsPlacement = WHOLE, order: int = 0
) -> dict[str, Any]:
    """Return a ConfigKeyInfo. `order` counts the settings of a part from 0."""
    group, position = setting.group, setting.order
    if place.group is not None:
        group = place.group + (f": {setting.group}" if setting.group else "")
        position = place.first_order + order
    return {
        "name": place.prefix + setting.name,
        "type": setting.kind.value,
        "required": setting.required,
        "default_value": setting.shown_default,
        "importance": setting.importance.upper(),
        "documentation": setting.doc,
        "group": group,
        "order_in_group": position,
        "width": setting.width.upper(),
        "display_name": setting.display,
        "dependents": [place.prefix + name for name in setting.dependents],
    }


def definitions(model: type[ConfigModel]) -> list[dict[str, Any]]:
    """Return the answer of `GET /connector-plugins/{plugin}/config`."""
    return [definition(setting) for setting in model.settings()]


def infos_of(config: ConfigModel, place: SettingsPlacement = WHOLE) -> list[ConfigInfo]:
    """Return each setting of a config with its errors, also those of `check`."""
    errors: dict[str, list[str]] = {}
    for problem in (*config.problems(), *config.check()):
        errors.setdefault(problem.key, []).append(problem.text)
    infos = [
        ConfigInfo(
            name=place.prefix + setting.name,
            definition=definition(setting, place, order),
            value=_shown(setting, config),
            recommended=_texts(config.recommended(setting.name)),
            errors=errors.pop(setting.name, []),
            visible=config.is_visible(setting.name),
        )
        for order, setting in enumerate(type(config).settings())
    ]
    for name, texts in errors.items():
        infos.append(ConfigInfo(place.prefix + name, None, None, errors=texts))
    return infos


def _texts(values: Sequence[object]) -> list[str]:
    return [str(value) for value in values]


def _shown(setting: ConfigKey, config: ConfigModel) -> str | None:
    """Return the value as it was read; None if the text cannot be converted to its type."""
    if setting.name not in config.wrong:
        return shown(setting.kind, getattr(config, setting.attribute))
    given = config.originals.get(setting.name)
    if given is None:
        return None
    try:
        return shown(setting.kind, parsed(setting.kind, (), given))
    except ValueError:
        return None if setting.kind is not ConfigType.CLASS else given
