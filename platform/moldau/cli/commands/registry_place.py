"""The Schema Registry of a command: from its option, the environment or the profile."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Final

from moldau.cli.command import Context, UsageError
from moldau.cli.commands.cluster_connection import ClientSettings

VARIABLE: Final = "MOLDAU_REGISTRY"
URL: Final = "schema.registry.url"
DEFAULT: Final = "http://localhost:8081"
FORMATS: Final = ("avro", "json-schema", "protobuf")


def add_schemas(parser: ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """Add `--key-schema`, `--value-schema` and `--registry`."""
    for side in ("key", "value"):
        parser.add_argument(
            f"--{side}-schema",
            choices=formats,
            help=f"{side}s are of this format, with their schemas in the registry",
        )
    parser.add_argument(
        "--registry",
        metavar="URL",
        help=f"the Schema Registry; else ${VARIABLE}, else the profile's, else {DEFAULT}",
    )


def take_registry(arguments: Namespace, context: Context, settings: ClientSettings) -> None:
    """Add the registry's URL to the settings. Raise UsageError for one without a use."""
    if arguments.key_schema is None and arguments.value_schema is None:
        if arguments.registry is not None:
            raise UsageError("--registry is for schemas: give --value-schema or --key-schema too")
        return
    variable = context.environment.get(VARIABLE)
    if arguments.registry is not None:
        settings.take({URL: arguments.registry}, "COMMAND_LINE", "--registry")
    elif variable and context.profile_name is None:
        settings.take({URL: variable}, "ENVIRONMENT", VARIABLE)
    elif context.profile.profile.registry is not None:
        where = f"profile {context.profile.name}"
        settings.take({URL: context.profile.profile.registry}, "FILE", where)
    elif URL not in settings:
        settings[URL] = DEFAULT
