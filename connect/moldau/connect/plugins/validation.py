"""Validation of a connector config with all plugins that it names.

All parts are checked, however many of them are invalid: the settings that every connector has, the
connector's own, its transforms and predicates, its converters. A mistake that Kafka ignores becomes
a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.connect.api.connector import Connector, SourceConnector
from moldau.connect.api.plugin import Plugin
from moldau.connect.config.connectors import (
    PREDICATES,
    TRANSFORMS,
    ConnectorConfig,
    SinkConfig,
    SourceConfig,
)
from moldau.connect.config.infos import ConfigInfo, ConfigInfos, SettingsPlacement, infos_of
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.config.warnings import unknown_keys
from moldau.connect.plugins.catalogue import Catalogue, PluginKind, PluginNotFound
from moldau.connect.plugins.stages import aliases, with_prefix
from moldau.connect.plugins.versions import admits
from moldau.errors import ConfigError
from moldau.plugins.extras import need

CONVERTERS: tuple[tuple[str, PluginKind], ...] = (
    ("header.converter", PluginKind.HEADER_CONVERTER),
    ("key.converter", PluginKind.CONVERTER),
    ("value.converter", PluginKind.CONVERTER),
)


def validate(
    catalogue: Catalogue,
    given: Mapping[str, str | None],
    *,
    ask_connector: bool = True,
    is_dry_run: bool = False,
) -> ConfigInfos:
    """Return the problems of a config. Raise ConfigError only if the connector class is unknown.

    `ask_connector=False` skips the connector's own checks, such as whether a server answers.
    `is_dry_run=True` also finds problems that would pass by themselves, such as a server that is
    down.
    """
    name = given.get("connector.class")
    if not name:
        raise ConfigError('the config has no "connector.class": name the connector')
    connector = catalogue.find(PluginKind.CONNECTOR, name).cls()
    assert isinstance(connector, Connector)
    infos = _Validation(catalogue, given).of(connector, ask_connector and not is_dry_run)
    if is_dry_run:
        props = {name: text for name, text in given.items() if text is not None}
        for problem in connector.dry_run(props):
            infos.add_error(problem.key, problem.text)
    return infos


class _Part(ConfigModel):
    """The settings that every transform has, beside those of its own model."""

    predicate: str | None = key(
        "predicate", None, doc="The alias of the predicate that chooses the records."
    )
    negate: bool = key("negate", False, doc="Take the records that the predicate does not choose.")


class _Validation:
    """The validation of one config with all its parts."""

    def __init__(self, catalogue: Catalogue, given: Mapping[str, str | None]) -> None:
        self._catalogue = catalogue
        self._given = given
        self._props = {name: text for name, text in given.items() if text is not None}
        self._infos = ConfigInfos(str(given.get("connector.class")))
        self._open: list[str] = []

    def of(self, connector: Connector, ask_connector: bool) -> ConfigInfos:
        is_source = isinstance(connector, SourceConnector)
        shared = (SourceConfig if is_source else SinkConfig).read(self._props)
        own = type(connector).config_model.read(self._props)
        self._add(infos_of(shared))
        self._check_version(
            PluginKind.CONNECTOR, "connector.plugin.version", self._props.get("connector.class")
        )
        self._transforms()
        self._predicates()
        self._add(infos_of(own))
        for name, text in self._given.items():
            if text is None:
                self._infos.add_error(
                    name, "Null value can not be supplied as the configuration value."
                )
        if ask_connector:
            for problem in connector.validate(self._props):
                self._infos.add_error(problem.key, problem.text)
        for name, kind in CONVERTERS:
            self._converter(name, kind)
        self._warn(shared, own)
        return self._infos

    def _add(self, infos: Iterable[ConfigInfo]) -> None:
        """Add settings. For one that is defined twice the later counts, with the errors of both."""
        places = {info.name: at for at, info in enumerate(self._infos.configs)}
        for info in infos:
            if info.name not in places:
                self._infos.configs.append(info)
                continue
            before = self._infos.configs[places[info.name]]
            info.errors = list(dict.fromkeys([*before.errors, *info.errors]))
            if info.definition is None:
                before.errors = info.errors
            else:
                self._infos.configs[places[info.name]] = info

    def _transforms(self) -> None:
        chosen = set(aliases(self._given, "predicates"))
        for alias in aliases(self._given, "transforms"):
            prefix, group = f"transforms.{alias}.", f"{TRANSFORMS}: {alias}"
            plugin = self._named(prefix, group, PluginKind.TRANSFORMATION, alias)
            if plugin is None:
                continue
            given = with_prefix(self._props, prefix)
            self._add(infos_of(_Part.read(given), SettingsPlacement(prefix, group, 2)))
            self._add(
                infos_of(plugin.config_model.read(given), SettingsPlacement(prefix, group, 4))
            )
            self._open.extend(prefix + each for each in plugin.config_model.open_prefixes)
            if "negate" in given and "predicate" not in given:
                self._infos.add_error(
                    prefix + "type",
                    f"Config '{prefix}negate' was provided but there is no config "
                    f"'{prefix}predicate' defining a predicate to be negated.",
                )
            predicate = given.get("predicate")
            if predicate is not None and predicate not in chosen:
                self._infos.add_error(
                    prefix + "predicate",
                    f'"predicates" does not list the predicate "{predicate}"; add it there',
                )

    def _predicates(self) -> None:
        for alias in aliases(self._given, "predicates"):
            prefix, group = f"predicates.{alias}.", f"{PREDICATES}: {alias}"
            plugin = self._named(prefix, group, PluginKind.PREDICATE, alias)
            if plugin is not None:
                given = with_prefix(self._props, prefix)
                self._add(
                    infos_of(plugin.config_model.read(given), SettingsPlacement(prefix, group, 2))
                )

    def _named(self, prefix: str, group: str, kind: PluginKind, alias: str) -> type[Plugin] | None:
        """Return the class that `<prefix>type` names, and add the settings of type and version."""
        name = self._props.get(prefix + "type")
        plugin, error = None, None
        if name is None:
            error = f'Missing required configuration "{prefix}type" which has no default value.'
        else:
            plugin, error = self._find(kind, prefix + "type", name)
        base = kind.base.__name__
        shown = {
            "type": "CLASS", "required": True, "default_value": None, "importance": "HIGH",
            "group": group, "width": "LONG", "dependents": [],
        }  # fmt: skip
        class_key = {
            "name": prefix + "type", **shown,
            "documentation": f"Class for the '{alias}' {kind.word}.",
            "order_in_group": 0, "display_name": f"{base} type for {alias}",
        }  # fmt: skip
        version_key = {
            "name": prefix + "plugin.version", **shown, "type": "STRING", "required": False,
            "documentation": f"Version of the '{alias}' {kind.word}.",
            "order_in_group": 1, "display_name": f"{base} version for {alias}",
        }  # fmt: skip
        recommended = [each.name for each in self._catalogue.all(kind)]
        class_info = ConfigInfo(prefix + "type", class_key, name, recommended)
        class_info.errors.extend([error] if error else [])
        version = self._props.get(prefix + "plugin.version")
        version_info = ConfigInfo(prefix + "plugin.version", version_key, version)
        if plugin is not None:
            version_info.errors.extend(self._version_errors(kind, prefix + "plugin.version", name))
        self._add([class_info, version_info])
        return plugin

    def _version_errors(self, kind: PluginKind, setting: str, name: str | None) -> list[str]:
        """Return an error if `setting` asks for other versions than the installed one."""
        wanted = self._props.get(setting)
        if wanted is None or name is None:
            return []
        installed = self._catalogue.find(kind, name).version
        start = f"Invalid value {wanted} for configuration {setting}: "
        try:
            if admits(wanted, installed or ""):
                return []
        except ValueError as error:
            return [f"{start}{error}; installed is {installed}"]
        return [
            f"{start}installed is {installed}, and a worker has one version of a plugin; "
            "remove the setting, or install that version"
        ]

    def _check_version(self, kind: PluginKind, setting: str, name: str | None) -> None:
        for error in self._version_errors(kind, setting, name):
            self._infos.add_error(setting, error)

    def _find(
        self, kind: PluginKind, setting: str, name: str
    ) -> tuple[type[Plugin] | None, str | None]:
        try:
            return self._catalogue.find(kind, name).cls, None
        except PluginNotFound as error:
            return None, f"Invalid value {name} for configuration {setting}: {error}"

    def _converter(self, setting: str, kind: PluginKind) -> None:
        name = self._props.get(setting)
        if name is None:
            if f"{setting}.plugin.version" in self._props:
                self._infos.add_error(
                    f"{setting}.plugin.version", f"{setting}.plugin.version needs {setting}"
                )
            return
        plugin, error = self._find(kind, setting, name)
        if plugin is None:
            self._infos.add_error(setting, error or "")
            return
        self._check_version(kind, f"{setting}.plugin.version", name)
        for module, extra in plugin.libraries:
            try:
                need(module, extra)
            except ConfigError as missing:
                self._infos.add_error(setting, f"{name}: {missing.reason}")
        role = setting.partition(".")[0]
        given = {"converter.type": role, **with_prefix(self._props, setting + ".")}
        infos = infos_of(plugin.config_model.read(given), SettingsPlacement(setting + "."))
        self._add(infos)
        self._open.extend(f"{setting}.{each}" for each in plugin.config_model.open_prefixes)

    def _warn(self, shared: ConnectorConfig, own: ConfigModel) -> None:
        parts = ("transforms.", "predicates.", *(f"{name}." for name, _ in CONVERTERS))
        prefixes = [each for each in shared.open_prefixes if each not in parts]
        prefixes += [*type(own).open_prefixes, *self._open]
        for setting in (*type(own).settings(), *type(shared).settings()):
            prefixes.extend(each for each in setting.also if each in self._given)
        known = [info.name for info in self._infos.configs]
        known += [f"{name}.converter.type" for name, _ in CONVERTERS]
        self._infos.warnings.extend(unknown_keys(self._given, known, prefixes))
        self._infos.warnings.extend(own.warnings())
        has_dlq = isinstance(shared, SinkConfig) and bool(shared.dlq_topic)
        if shared.errors_tolerance == "all" and not (shared.errors_log_enable or has_dlq):
            self._infos.warnings.append(
                Problem(
                    "errors.tolerance",
                    "Records that fail are dropped without a trace: set "
                    "errors.deadletterqueue.topic.name (sinks) or errors.log.enable=true",
                )
            )
        if has_dlq and shared.errors_tolerance != "all":
            self._infos.warnings.append(
                Problem(
                    "errors.deadletterqueue.topic.name",
                    "Nothing goes there, because the first bad record fails the task: set "
                    "errors.tolerance=all",
                )
            )
