"""Services that run inside a broker's process: the contract of the entry points of
`moldau.broker_services`.

    [project.entry-points."moldau.broker_services"]
    registry = "moldau.registry.hosted:prepare"

A broker starts the service NAME if its setting `moldau.NAME.listener` is given. The entry point is
a function that checks the service's settings before the broker starts, and returns another one that
serves once the broker does.

Invariants: a service reaches its broker over the wire, as in a process of its own; it is tried
again when it fails, and the broker goes on; it ends before the broker stops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from moldau.logging import Logger
    from moldau.metrics import Registry
    from moldau.runtime import Runtime

GROUP: Final = "moldau.broker_services"


@dataclass(frozen=True, slots=True)
class HostBroker:
    """What a service is told about the broker that it runs in."""

    login: Mapping[str, str] = field(repr=False)
    """Settings of a client that logs in at this broker as the other brokers do."""
    addresses: Mapping[str, str]
    """HOST:PORT of this broker by security protocol."""
    replicas: int
    """How many replicas the cluster's internal topics have."""


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service that is up."""

    address: str
    metrics: Registry
    """Written on the broker's page of metrics."""
    wait: Callable[[], Awaitable[None]]
    """Waits until the service cannot go on, and raises the reason."""


Serve = Callable[[HostBroker], AbstractAsyncContextManager[RunningService]]


class PrepareService(Protocol):
    """The type of the entry point."""

    def __call__(self, runtime: Runtime, settings: Mapping[str, str], log: Logger) -> Serve:
        """Check the settings, by their names after `moldau.NAME.`. Raise ConfigError if they can
        never be in force; warn of what is risky."""
        ...
