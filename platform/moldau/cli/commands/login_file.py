"""A private file with the settings of a client that logs in: what `--out` writes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from moldau.cli.command import Context, UsageError


def shared_settings(arguments: Namespace, context: Context) -> dict[str, str]:
    """Return what a new login's settings share with those of this command."""
    from moldau.cli.commands.cluster_connection import client_settings

    given = client_settings(arguments, context)
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if not protocol.startswith("SASL"):
        raise UsageError(
            "--out copies the settings of --command-config, and those have no login: their "
            f"security.protocol is {protocol}"
        )
    shared = ("bootstrap.servers", "security.protocol", "ssl.endpoint.identification.algorithm")
    return {
        name: value
        for name, value in given.items()
        if name in shared or name.startswith("ssl.truststore.")
    }


def write_login(path: str, settings: Mapping[str, str], title: str) -> None:
    """Write the settings into a new file that only this user reads. Raise UsageError."""
    from moldau.config.properties import format_properties
    from moldau.runtime.places import absolute_path, write_private_text

    try:
        write_private_text(absolute_path(path), format_properties(dict(settings), (title,)))
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror or error}") from error
