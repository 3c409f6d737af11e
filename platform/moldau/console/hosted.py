"""The console inside a broker's process: a plugin of the group `moldau.broker_services`.

It logs in at its broker as brokers log in at each other, and shows all that they see. So without a
login of its own it is served on this machine alone, and only where brokers need none. It has no
roles: `moldau console` has them, and logs in as you say.

Invariant: it has a loop and a thread of its own, so that no page holds up the broker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.cli.addresses import host_and_port
from moldau.cli.command import UsageError
from moldau.console.command import check_installed
from moldau.errors import ConfigError
from moldau.link.hosted_services import HostBroker, RunningService, Serve
from moldau.link.http_protection import HttpProtection, load_protection, open_to_all
from moldau.link.security_settings import security_protocol
from moldau.link.service_thread import in_own_thread
from moldau.metrics import Registry
from moldau.runtime.signals import forever

if TYPE_CHECKING:
    from moldau.logging import Logger
    from moldau.runtime import Runtime

LISTENER: Final = "listener"
ADMIN: Final = "admin"
HTTP_CONFIG: Final = "http.config"
_PREFIX: Final = "moldau.console."
_CURE: Final = f"give {_PREFIX}{HTTP_CONFIG} with http.users.file, or start `moldau console`"


def prepare(runtime: Runtime, settings: Mapping[str, str], log: Logger) -> Serve:
    """Check the settings, and return the function that serves. Raise ConfigError."""
    check_installed()
    try:
        listen = host_and_port(settings[LISTENER], f"{_PREFIX}{LISTENER}")
    except UsageError as error:
        raise ConfigError(str(error)) from None
    path = settings.get(HTTP_CONFIG)
    by = HttpProtection() if path is None else load_protection(path, runtime.clock)
    if open_to_all(by, listen[0]):
        raise ConfigError(
            f"the console would show every message to the network without a login: {_CURE}, or "
            "serve it at 127.0.0.1",
            setting=f"{_PREFIX}{LISTENER}",
            value=settings[LISTENER],
        )
    from moldau.console.access import Access
    from moldau.console.server import served  # it takes long: here the broker has no clients yet

    access = Access(settings.get(ADMIN) == "true", log, records_looks=by.asks_login)

    @asynccontextmanager
    async def pages(beside: Runtime, host: HostBroker) -> AsyncIterator[RunningService]:
        async with served(beside, host.login, listen, by, access) as address:
            yield RunningService(address, Registry(), forever)

    @asynccontextmanager
    async def serve(host: HostBroker) -> AsyncIterator[RunningService]:
        _check_login(by, host)
        async with in_own_thread(runtime, "console", partial(pages, host=host)) as service:
            yield service

    return serve


def _check_login(by: HttpProtection, host: HostBroker) -> None:
    """Raise ConfigError if visitors would have the rights of brokers without a login."""
    protocol = host.login.get(security_protocol.name, "PLAINTEXT")
    if by.is_open and protocol != "PLAINTEXT":
        raise ConfigError(
            "the console has the rights of a broker, and brokers log in here, so visitors have to "
            f"as well: {_CURE}",
            protocol=protocol,
        )
