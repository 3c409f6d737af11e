"""The console inside a broker's process: a plugin of the group `moldau.broker_services`.

It logs in at its broker as brokers log in at each other, and shows all that they see: rules (ACLs)
hold for its visitors as little as for a broker, and their roles are all that bounds them. So
without a login it is served on this machine alone, and only where brokers need none.

Invariant: it has a loop and a thread of its own, so that no page holds up the broker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.cli.addresses import host_and_port
from moldau.cli.command import UsageError
from moldau.cli.commands.registry_place import URL
from moldau.client.settings.serdes import data_contract_rules
from moldau.console.apis.connect import CONNECT
from moldau.console.apis.prometheus import PROMETHEUS
from moldau.console.apis.services import PIPELINES, STREAMS, named
from moldau.console.command import check_installed
from moldau.console.options import SETTING_PREFIX, VisitorOptions, visitors_of
from moldau.errors import ConfigError
from moldau.link.http.hosted import HostBroker, RunningService, Serve, in_own_thread
from moldau.link.security_settings import security_protocol
from moldau.metrics import Registry
from moldau.runtime.signals import forever

if TYPE_CHECKING:
    from moldau.console.options import Visitors
    from moldau.logging import Logger
    from moldau.runtime import Runtime

LISTENER: Final = "listener"
SHOWN: Final = {
    "registry": URL,
    data_contract_rules.name: data_contract_rules.name,
    "connect": CONNECT,
    "streams": STREAMS,
    "pipeline": PIPELINES,
    "prometheus": PROMETHEUS,
}
"""What is shown beside the cluster, and how: the broker's setting, and that of a console."""


def prepare(runtime: Runtime, settings: Mapping[str, str], log: Logger) -> Serve:
    """Check the settings, and return the function that serves. Raise ConfigError."""
    check_installed()
    options = VisitorOptions.of_settings(settings)
    try:
        listen = host_and_port(settings[LISTENER], f"{SETTING_PREFIX}{LISTENER}")
        visitors = visitors_of(options, runtime, listen[0], log)
    except UsageError as error:
        raise ConfigError(str(error)) from None
    if visitors.are_everyone(listen[0]):
        raise ConfigError(
            "the console would show every message to the network without a login: give "
            f"{options.cure}, or serve it at 127.0.0.1",
            setting=f"{SETTING_PREFIX}{LISTENER}",
            value=settings[LISTENER],
        )
    shown = _shown(settings)
    from moldau.console.server import served  # it takes long: here the broker has no clients yet

    @asynccontextmanager
    async def pages(beside: Runtime, host: HostBroker) -> AsyncIterator[RunningService]:
        oidc = visitors.provider(beside, log)
        place = listen, visitors.protection, visitors.access, oidc
        async with served(beside, {**host.login, **shown}, *place) as address:
            yield RunningService(address, Registry(), forever)

    @asynccontextmanager
    async def serve(host: HostBroker) -> AsyncIterator[RunningService]:
        _check_login(visitors, options.cure, host)
        async with in_own_thread(runtime, "console", partial(pages, host=host)) as service:
            yield service

    return serve


def _shown(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the console's settings for what is beside the cluster. Raise ConfigError for a name
    that is given twice."""
    found = {SHOWN[name]: text for name, text in settings.items() if name in SHOWN}
    for name in ("streams", "pipeline"):
        words = settings.get(name, "").split(",")
        named(f"{SETTING_PREFIX}{name}", filter(None, words))
        found[SHOWN[name]] = " ".join(words)
    return found


def _check_login(visitors: Visitors, cure: str, host: HostBroker) -> None:
    """Raise ConfigError if visitors would have the rights of brokers without a login."""
    protocol = host.login.get(security_protocol.name, "PLAINTEXT")
    if not visitors.have_login and protocol != "PLAINTEXT":
        raise ConfigError(
            "the console has the rights of a broker, and brokers log in here, so visitors have to "
            f"as well: give {cure}",
            protocol=protocol,
        )
