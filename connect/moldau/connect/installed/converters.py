"""Checks the worker's own converters at its start: a wrong one would fail every connector later."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.connect.config.infos import SettingsPlacement, infos_of
from moldau.connect.installed.plugins import catalogue
from moldau.connect.plugins import PluginKind
from moldau.connect.plugins.catalogue import PluginNotFound
from moldau.connect.plugins.stages import with_prefix
from moldau.connect.plugins.validation import CONVERTERS
from moldau.errors import ConfigError
from moldau.plugins.extras import need


def check_converters(worker: Mapping[str, str]) -> None:
    """Raise ConfigError for a converter of the worker that does not exist, that lacks a library, or
    that has a wrong setting."""
    for setting, kind in CONVERTERS:
        name = worker.get(setting)
        if name is not None:
            _check(worker, setting, kind, name)


def _check(worker: Mapping[str, str], setting: str, kind: PluginKind, name: str) -> None:
    try:
        plugin = catalogue().find(kind, name).cls
    except PluginNotFound as error:
        raise ConfigError(str(error), setting=setting, value=name) from None
    for module, extra in plugin.libraries:
        need(module, extra)
    role = setting.partition(".")[0]
    given = {"converter.type": role, **with_prefix(worker, f"{setting}.")}
    for info in infos_of(plugin.config_model.read(given), SettingsPlacement(f"{setting}.")):
        if info.errors:
            raise ConfigError(info.errors[0], setting=info.name)
