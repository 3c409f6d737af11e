"""The Schema Registry of a command: from its option, the environment or the profile."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.cli.command import Context, UsageError
from moldau.cli.commands.cluster_connection import ClientSettings, profile_beside

if TYPE_CHECKING:
    from moldau.cli.profiles import Profile

VARIABLE: Final = "MOLDAU_REGISTRY"
URL: Final = "schema.registry.url"
DEFAULT: Final = "http://localhost:8081"
FORMATS: Final = ("avro", "json-schema", "protobuf")


def add_schemas(parser: ArgumentParser) -> None:
    """Add `--key-schema`, `--value-schema` and `--registry`."""
    for side in ("key", "value"):
        parser.add_argument(
            f"--{side}-schema",
            choices=FORMATS,
            help=f"{side}s are of this format, with their schemas in the registry",
        )
    parser.add_argument(
        "--registry",
        metavar="URL",
        help=f"the Schema Registry; else ${VARIABLE}, else the profile's, else {DEFAULT}",
    )


def line_serde(schema: str | None) -> Any:
    """Return the serde of lines of JSON for the schemas of a format, None for no schema."""
    if schema is None:
        return None
    from moldau.client.serdes.resolve import TEXTS

    return TEXTS[schema]


class RegistryPlace(NamedTuple):
    """The URL of a registry, and the source that names it, as `ClientSettings.take` wants it."""

    url: str
    kind: str
    where: str


def registry_place(
    given: str | None, context: Context, *clusters: str | None
) -> RegistryPlace | None:
    """Return the place of the registry: that of the option, the environment or the profile. The
    latter is one that counts where the options `clusters` are given."""
    if given is not None:
        return RegistryPlace(given, "COMMAND_LINE", "--registry")
    variable = context.environment.get(VARIABLE)
    if variable and context.profile_name is None:
        return RegistryPlace(variable, "ENVIRONMENT", VARIABLE)
    url = profile_beside(context, *clusters).registry
    return None if url is None else RegistryPlace(url, "FILE", f"profile {context.profile.name}")


def check_registry(place: RegistryPlace) -> None:
    """Raise UsageError for a place with an address that is none."""
    from moldau.client.serdes.registry.http import parse_url
    from moldau.errors import ConfigError

    for each in place.url.split(","):
        try:
            parse_url(each.strip())
        except ConfigError as error:
            raise UsageError(f"{place.where}: {error.reason}") from None


def registry_settings(
    given: str | None, path: str | None, context: Context, profile: Profile | None
) -> dict[str, object]:
    """Return the settings of a registry's client: of the profile, the environment, the file at
    `path` and the URL that is given; the last of them wins."""
    settings: dict[str, object] = {URL: DEFAULT}
    if profile is not None:
        settings |= _of_registry(profile.settings)
        settings |= {} if profile.registry is None else {URL: profile.registry}
    variable = context.environment.get(VARIABLE)
    if variable is not None and context.profile_name is None:
        settings[URL] = variable
    if path is not None:
        from moldau.client.base.file import read_settings

        settings |= _of_registry(read_settings(path)[0])
    if given:
        settings[URL] = given
    return settings


def _of_registry(given: Mapping[str, str]) -> dict[str, str]:
    """Return the registry's settings of these, which may be those of other clients too."""
    from moldau.client.settings import serdes as rows

    names = {row.name for row in rows.REGISTRY_ROWS}
    return {name: value for name, value in given.items() if name in names}


def take_registry(arguments: Namespace, context: Context, settings: ClientSettings) -> None:
    """Add the registry's URL to the settings. Raise UsageError for one without a use."""
    if arguments.key_schema is None and arguments.value_schema is None:
        if arguments.registry is not None:
            raise UsageError("--registry is for schemas: give --value-schema or --key-schema too")
        return
    clusters = (arguments.bootstrap, arguments.command_config)
    place = registry_place(arguments.registry, context, *clusters)
    if place is not None:
        settings.take({URL: place.url}, place.kind, place.where)
    elif URL not in settings:
        settings[URL] = DEFAULT
