"""Noticing at once that a broker's process ended, before its session does.

A broker that is killed takes its connections with it. The active controller then tries to connect
to it: a host that refuses has no such process any more, and the broker is fenced. Every other
outcome (it answers, or nothing comes) proves nothing, and the session decides.

Invariant: a broker is only ever fenced early when the hosts themselves said of all its listeners
that nobody is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.controller.shell import ActiveController
    from moldau.logging import Logger
    from moldau.runtime import Runtime

DELAYS_SECONDS: Final = (0.02, 0.1, 0.3)
"""A process that ends closes its connections and its listener one after the other."""
CONNECT_SECONDS: Final = 1.0


class BrokerProbe:
    """Of one node; asks only while the controller is here."""

    def __init__(
        self, runtime: Runtime, active: Callable[[], ActiveController | None], log: Logger
    ) -> None:
        self._runtime = runtime
        self._active = active
        self._log = log
        self._probing: dict[int, asyncio.Task[None]] = {}

    def suspect_all(self, own_id: int) -> None:
        """This node leads the quorum now; who led it may be gone."""
        active = self._active()
        if active is not None:
            for broker in list(active.controller.image.brokers.by_id.values()):
                if broker.broker_id != own_id and not broker.is_fenced:
                    self.suspect(broker.broker_id)

    def suspect(self, broker_id: int) -> None:
        """A connection from that broker ended."""
        if self._active() is not None and broker_id not in self._probing:
            task = self._runtime.spawn(self._probe(broker_id), name=f"probe-{broker_id}")
            self._probing[broker_id] = task
            task.add_done_callback(lambda _: self._probing.pop(broker_id, None))

    async def aclose(self) -> None:
        """Ask nobody any more."""
        tasks = list(self._probing.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _probe(self, broker_id: int) -> None:
        for delay_s in DELAYS_SECONDS:
            await asyncio.sleep(delay_s)
            active = self._active()
            if active is None:
                return
            broker = active.controller.image.brokers.by_id.get(broker_id)
            if broker is None or broker.is_fenced or not broker.endpoints:
                return
            if await self._is_gone([(at.host, at.port) for at in broker.endpoints]):
                ports = [at.port for at in broker.endpoints]
                self._log.warn("a broker is gone, and is fenced", broker=broker_id, ports=ports)
                active.on_broker_gone(broker_id, broker.broker_epoch)
                return

    async def _is_gone(self, endpoints: list[tuple[str, int]]) -> bool:
        """Whether nobody listens where the broker said that it does, at any of its endpoints."""
        for host, port in endpoints:
            if not await self._is_refused(host, port):
                return False
        return True

    async def _is_refused(self, host: str, port: int) -> bool:
        """Whether every address of the host says that nobody listens there."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for address, _ in await self._runtime.network.resolve(host, port):
                    try:
                        transport, _ = await self._runtime.network.connect(
                            asyncio.Protocol, address, port
                        )
                    except ConnectionRefusedError:
                        continue
                    transport.abort()
                    return False
        except (OSError, TimeoutError):
            return False
        return True
