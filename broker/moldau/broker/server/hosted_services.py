"""Runs the services of one broker's process, as `moldau.link.http.hosted` describes them.

Invariants: a service with settings that can never be in force prevents the start of the broker. No
other failure of a service is one of the broker: it is logged, and the service is tried again after
a pause that grows. After `aclose` no task and no port of a service is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.server.security import own_client
from moldau.broker.settings import read_listeners, wanted_services
from moldau.broker.settings.offset import offsets_topic_replication_factor
from moldau.errors import MoldauError
from moldau.link.http.hosted import GROUP, HostBroker, RunningService
from moldau.plugins import installed_plugins
from moldau.runtime.backoff import Backoff
from moldau.runtime.restarts import RestartPolicy, Restarts

if TYPE_CHECKING:
    from moldau.broker.server.broker import Broker
    from moldau.config import Settings
    from moldau.link.http.hosted import PrepareService, Serve
    from moldau.logging import Logger, Loggers
    from moldau.runtime import Runtime

RESTARTS: Final = RestartPolicy(Backoff(1_000, 30_000), steady_ms=0)
LOGGER: Final = "moldau.broker.services"
_FAILED: Final = "a service failed, starts again; the broker goes on"


class HostedServices:
    """The services of one broker, by name."""

    def __init__(
        self,
        runtime: Runtime,
        prepared: Mapping[str, Serve],
        log: Logger,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` gets a line for the user whenever a service has come up."""
        self._runtime = runtime
        self._prepared = prepared
        self._log = log
        self._tell = tell
        self._tasks: list[asyncio.Task[None]] = []
        self._running: dict[str, RunningService] = {}

    @classmethod
    def prepare(
        cls,
        runtime: Runtime,
        settings: Settings,
        loggers: Loggers,
        tell: Callable[[str], None],
    ) -> HostedServices:
        """Load the services that the settings ask for, and check their settings, before the broker
        starts. Raise ConfigError or PluginError."""
        wanted = wanted_services(settings)
        plugins = installed_plugins() if wanted else None
        prepared: dict[str, Serve] = {}
        for name, given in wanted.items():
            assert plugins is not None
            prepare = cast("PrepareService", plugins.load(GROUP, name))
            prepared[name] = prepare(runtime, given, loggers.get(f"moldau.{name}"))
        return cls(runtime, prepared, loggers.get(LOGGER), tell)

    def start(self, host: Callable[[], HostBroker]) -> None:
        """Start the services: the broker serves clients. `host` is called at each attempt."""
        for name, serve in self._prepared.items():
            self._tasks.append(
                self._runtime.spawn(self._keep(name, serve, host), name=f"service {name}")
            )

    def states(self) -> dict[str, RunningService | None]:
        """Return each service; None if it is not up."""
        return {name: self._running.get(name) for name in self._prepared}

    async def _keep(self, name: str, serve: Serve, host: Callable[[], HostBroker]) -> None:
        restarts = Restarts(RESTARTS)
        while True:
            try:
                async with serve(host()) as service:
                    restarts.on_up(self._now_ms())
                    self._running[name] = service
                    self._log.info("a service is up", service=name, at=service.address)
                    self._tell(f"{name} at {service.address}")
                    await service.wait()
                pause_s = self._pause_s(restarts)
                self._log.warn("a service has ended, starts again", service=name, in_s=pause_s)
            except (MoldauError, OSError) as error:  # such as too few brokers yet
                pause_s = self._pause_s(restarts)
                self._log.warn(_FAILED, service=name, in_s=pause_s, why=str(error))
            except Exception as error:
                pause_s = self._pause_s(restarts)
                self._log.failure(_FAILED, error, service=name, in_s=pause_s)
            finally:
                self._running.pop(name, None)
            await asyncio.sleep(pause_s)

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // 1_000_000

    def _pause_s(self, restarts: Restarts) -> float:
        pause_ms = restarts.on_failure(self._now_ms())
        assert pause_ms is not None, "restarts have no end"
        return pause_ms / 1000

    async def aclose(self) -> None:
        """Stop the services: the broker still serves them. May be called again."""
        tasks, self._tasks = self._tasks, []
        for each in tasks:
            each.cancel()
        if tasks:
            await asyncio.wait(tasks)


def host_of(broker: Broker) -> HostBroker:
    """Return what services are told about a started broker."""
    settings = broker.node.settings
    listeners = read_listeners(settings)
    addresses: dict[str, str] = {}
    for each in listeners.advertised_broker:
        addresses.setdefault(each.security_protocol, str(broker.endpoints[each.name]))
    return HostBroker(
        login=own_client(settings, str(broker.endpoints[listeners.inter_broker])),
        addresses=addresses,
        replicas=settings[offsets_topic_replication_factor],
    )
