"""The options by which commands find the REST API of a Connect worker."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, UsageError
from moldau.operations.connectors import Rest

if TYPE_CHECKING:
    import ssl

DEFAULT_URL: Final = "http://127.0.0.1:8083"
VARIABLE: Final = "MOLDAU_CONNECT"
CA_VARIABLE: Final = "MOLDAU_CONNECT_CA"
TOKEN_VARIABLE: Final = "MOLDAU_CONNECT_TOKEN"  # noqa: S105 - its name


def add_url(parser: ArgumentParser) -> None:
    """Add the option for the worker's URL."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"a worker's REST API; else {VARIABLE}, which may have user:password@, else "
        f"{DEFAULT_URL}; {TOKEN_VARIABLE} is a bearer token, {CA_VARIABLE} a PEM file with the "
        "authority of https",
    )


def add_json(parser: ArgumentParser) -> None:
    """Add the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def named_url(context: Context) -> str | None:
    """Return the URL of the environment or of the profile. A profile that is asked for by an option
    wins over the environment, as options do."""
    if context.profile_name is not None:
        return context.profile.profile.connect
    return context.environment.get(VARIABLE) or context.profile.profile.connect


def open_rest(arguments: Namespace, context: Context, option: str = "--url") -> Rest:
    """Return the API of the worker at the URL of the arguments, which `option` gives, or of the
    context."""
    token = context.environment.get(TOKEN_VARIABLE)
    return Rest(
        arguments.url or named_url(context) or DEFAULT_URL,
        option,
        {"Authorization": f"Bearer {token}"} if token else {},
        _authority(context.environment.get(CA_VARIABLE)),
    )


def _authority(path: str | None) -> ssl.SSLContext | None:
    if not path:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise UsageError(f"{CA_VARIABLE}={path}: it cannot be used: {error}") from None
