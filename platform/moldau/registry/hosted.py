"""The registry inside a broker's process: a plugin of the group `moldau.broker_services`.

It logs in at its broker by `moldau.registry.client.config`, else as brokers log in at each other.

Invariant: the broker's event loop never parses or compares a schema. The registry has a loop and a
thread of its own, which share only the interpreter with the broker; what keeps the interpreter for
one step, such as the JSON of a body, is bounded by BODY_BYTES_MAX.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError
from moldau.errors import ConfigError
from moldau.link.http.hosted import HostBroker, RunningService, Serve, in_own_thread
from moldau.link.security_settings import security_protocol
from moldau.registry.command import check_installed, open_warning, options_of, protected

if TYPE_CHECKING:
    from moldau.logging import Logger
    from moldau.registry.server import Options
    from moldau.runtime import Runtime

LISTENER: Final = "listener"
ADVERTISED: Final = "advertised"
HTTP_CONFIG: Final = "http.config"
CLIENT_CONFIG: Final = "client.config"
BODY_BYTES_MAX: Final = 1024 * 1024
"""A topic takes no larger record by default, so no larger schema can be stored."""
_PREFIX: Final = "moldau.registry."
_BOOTSTRAP: Final = "bootstrap.servers"


def prepare(runtime: Runtime, settings: Mapping[str, str], log: Logger) -> Serve:
    """Check the settings, and return the function that serves. Raise ConfigError."""
    check_installed()
    given = settings[LISTENER], settings.get(ADVERTISED)
    try:
        options = options_of(*given, (f"{_PREFIX}{LISTENER}", f"{_PREFIX}{ADVERTISED}"))
    except UsageError as error:
        raise ConfigError(str(error)) from None
    options = protected(options, settings.get(HTTP_CONFIG), runtime)
    warning = open_warning(options, f"{_PREFIX}{HTTP_CONFIG}")
    if warning is not None:
        log.warn(warning)
    own = _own_settings(settings.get(CLIENT_CONFIG), log)

    @asynccontextmanager
    async def serve(host: HostBroker) -> AsyncIterator[RunningService]:
        client = host.login if own is None else at_broker(own, host)
        chosen = replace(options, replicas=host.replicas, body_bytes_max=BODY_BYTES_MAX)
        begin = partial(_served, settings=client, options=chosen, log=log)
        async with in_own_thread(runtime, "registry", begin) as service:
            yield service

    return serve


@asynccontextmanager
async def _served(
    runtime: Runtime, settings: Mapping[str, str], options: Options, log: Logger
) -> AsyncIterator[RunningService]:
    from moldau.registry.server import SchemaRegistryServer  # loaded by `options_of`

    server = SchemaRegistryServer(runtime, settings, options, log)
    try:
        yield RunningService(await server.start(), server.metrics, server.wait)
    finally:
        await server.aclose()


def _own_settings(path: str | None, log: Logger) -> dict[str, str] | None:
    """Return the client settings of a file; None without one. Raise ConfigError."""
    if path is None:
        return None
    from moldau.client.base.file import read_settings

    own, notices = read_settings(path)
    for each in notices:
        log.warn(each)
    return own


def at_broker(own: Mapping[str, str], host: HostBroker) -> dict[str, str]:
    """Return the client settings with the broker's address, unless they have one. Raise ConfigError
    if no listener of the broker has their protocol."""
    if own.get(_BOOTSTRAP):
        return dict(own)
    protocol = own.get(security_protocol.name, "PLAINTEXT").upper()
    if protocol not in host.addresses:
        raise ConfigError(
            f"this broker has no listener for {protocol}: give {security_protocol.name}, or "
            f"{_BOOTSTRAP}, in the file of {_PREFIX}{CLIENT_CONFIG}",
            protocols=sorted(host.addresses),
        )
    return {**own, _BOOTSTRAP: host.addresses[protocol]}
