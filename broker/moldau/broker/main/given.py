"""The settings of a node from its command line, its file and its environment.

Order, the later wins: the settings of a standalone node (only without a file), the file, `MOLDAU_*`
variables, `--data` and `--listen`, `--set`. A file must contain every required setting, as with
Kafka. Between two names of one setting the order does not decide: `log.dirs` wins over `log.dir`
wherever both were given, as in Kafka. Either of them replaces the default directory of a node. A
value given both by `--data` or `--listen` and by `--set` is rejected.

Invariant: the directories in the resulting settings are absolute: a log must not move when a
process is started in another directory.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError
from moldau.runtime.places import default_data_directory

if TYPE_CHECKING:
    from moldau.config import ConfigProvider, GivenValue, Layer, Settings
    from moldau.config.given import RawValue
    from moldau.runtime.files import Files

_DIRECTORY: Final = "log.dir"
_DIRECTORIES: Final = "log.dirs"
_CORDONED: Final = "cordoned.log.dirs"
_PATHS: Final = frozenset((_DIRECTORY, _DIRECTORIES, "metadata.log.dir", _CORDONED))
_PROVIDERS: Final = "config.providers"
_OF_DATA: Final = (_DIRECTORY, _DIRECTORIES)
_OF_LISTEN: Final = ("listeners", "controller.quorum.bootstrap.servers")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options that `moldau broker start` and `moldau storage` share."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="server.properties, or TOML, YAML or JSON"
    )
    parser.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting; may be given again",
    )
    parser.add_argument("--data", metavar="DIR", help="where logs are kept (log.dirs)")


def settings_given(
    arguments: Namespace,
    environment: Mapping[str, str],
    files: Files,
    listen: str | None = None,
    *,
    is_image: bool = False,
) -> Settings:
    """Return all given settings; `is_image` reads them as `image_environment` says. Raise
    UsageError, ConfigError or BadSettings if one is wrong."""
    from moldau.broker.settings import broker_settings
    from moldau.config import load_assignments, load_environment

    variables = _without_clients(load_environment(environment))
    words = load_assignments(arguments.assignments, "--set")
    said = frozenset(each.name for each in (*variables, *words))
    if is_image:
        ground = _image_ground(arguments, environment, files, listen, said)
    else:
        ground = _ground(arguments, environment, files, listen, said)
    _check_said_once("--data", arguments.data, _OF_DATA, words)
    _check_said_once("--listen", listen, _OF_LISTEN[:1], words)
    layers = (
        ground,
        variables,
        () if is_image else _data_layer(arguments.data),
        () if listen is None else tuple(each for each in ground if each.name in _OF_LISTEN),
        words,
    )
    providers = _providers(layers, environment, files)
    return broker_settings(*(_prepared(layer, providers) for layer in layers))


def _check_said_once(option: str, value: str | None, names: Sequence[str], words: Layer) -> None:
    also = [each.name for each in words if each.name in names]
    if value is not None and also:
        raise UsageError(f"{option} and --set {also[0]} say the same: give one of them")


def _without_clients(layer: Layer) -> Layer:
    """Return the layer without settings that only clients have: a broker may share the environment
    of an application."""
    from moldau.broker.settings import BROKER_SETTINGS

    def is_ours(name: str) -> bool:
        if BROKER_SETTINGS.find(name) or BROKER_SETTINGS.is_open(name):
            return True
        from moldau.cli.client_names import is_client_setting

        return not is_client_setting(name)

    return tuple(each for each in layer if is_ours(each.name))


def _ground(
    arguments: Namespace,
    environment: Mapping[str, str],
    files: Files,
    listen: str | None,
    said: frozenset[str],
) -> Layer:
    """Return the settings of the file, or those of a standalone node. `said` names the settings
    that a later layer gives."""
    if arguments.config is not None:
        from moldau.config import load_file
        from moldau.runtime.places import absolute_path

        if listen is not None:
            raise UsageError("--listen goes without --config: the file has listeners")
        return load_file(files, absolute_path(arguments.config))
    from moldau.broker.server.standalone import PORT, parse_listen, standalone_layer

    directory = arguments.data or default_data_directory(environment)
    host, port = parse_listen(str(PORT) if listen is None else listen)
    layer = standalone_layer(directory, host, port)
    if _DIRECTORY in said:  # otherwise the default of `log.dirs` would hide it
        return tuple(each for each in layer if each.name != _DIRECTORIES)
    return layer


def _image_ground(
    arguments: Namespace,
    environment: Mapping[str, str],
    files: Files,
    listen: str | None,
    said: frozenset[str],
) -> Layer:
    """Return the settings of a node in a container. A directory that a later layer gives, by
    either of its names, replaces theirs."""
    from moldau.broker.main.image_environment import image_layer

    if arguments.config is not None or listen is not None:
        raise UsageError("--kafka-environment goes without --config and --listen")
    directory = arguments.data or default_data_directory(environment)
    layer = image_layer(environment, files, directory)
    replaced = _OF_DATA if said & frozenset(_OF_DATA) else ()
    return tuple(each for each in layer if each.name not in replaced)


def _data_layer(directory: str | None) -> Layer:
    from moldau.config import GivenValue, Source, SourceKind

    source = Source(SourceKind.COMMAND_LINE, "--data")
    return () if directory is None else (GivenValue(_DIRECTORIES, directory, source),)


def _prepared(layer: Layer, providers: Mapping[str, ConfigProvider]) -> Layer:
    from moldau.config import resolve_references

    return tuple(map(_rooted, resolve_references(layer, providers)))


def _rooted(given: GivenValue) -> GivenValue:
    if given.name not in _PATHS or not given.value:
        return given
    if given.name == _CORDONED and "".join(given.value).strip() == "*":
        return given
    return replace(given, value=_absolute(given.value))


def _absolute(value: RawValue) -> RawValue:
    from moldau.runtime.places import absolute_path

    items = value.split(",") if isinstance(value, str) else value or ()
    return ",".join(absolute_path(each.strip()) if each.strip() else each for each in items)


# Providers of referenced values.


def _providers(
    layers: tuple[Layer, ...], environment: Mapping[str, str], files: Files
) -> Mapping[str, ConfigProvider]:
    """Return the providers that `config.providers` names. Kafka's class names mean our classes."""
    values: dict[str, str] = {
        given.name: given.value if isinstance(given.value, str) else ",".join(given.value or ())
        for layer in layers
        for given in layer
        if given.name.startswith(_PROVIDERS)
    }
    names = (name.strip() for name in values.get(_PROVIDERS, "").split(","))
    return {name: _provider(name, values, environment, files) for name in names if name}


def _provider(
    name: str, values: Mapping[str, str], environment: Mapping[str, str], files: Files
) -> ConfigProvider:
    """Return the provider of this name. Without an allowlist it may read everything, as in Kafka:
    the owner of the file runs the node."""
    from moldau.config import DirectoryProvider, EnvironmentProvider, FileProvider
    from moldau.errors import ConfigError

    kind = values.get(f"{_PROVIDERS}.{name}.class", "").rpartition(".")[2]
    paths = values.get(f"{_PROVIDERS}.{name}.param.allowed.paths", "")
    allowed = [path.strip() for path in paths.split(",") if path.strip()] or ["/"]
    if kind == "EnvVarConfigProvider":
        pattern = values.get(f"{_PROVIDERS}.{name}.param.allowlist.pattern", ".*")
        return EnvironmentProvider(environment, pattern)
    if kind == "FileConfigProvider":
        return FileProvider(files, allowed)
    if kind == "DirectoryConfigProvider":
        return DirectoryProvider(files, allowed)
    raise ConfigError(
        "no such config provider",
        setting=f"{_PROVIDERS}.{name}.class",
        allowed="EnvVarConfigProvider, FileConfigProvider or DirectoryConfigProvider",
    )
