"""Detection of a broker's exit before its session ends.

A killed broker's connections are closed. The active controller then tries to connect to the broker.
If the host refuses the connection, the process is gone, and the broker is fenced. Any other outcome
(a connection, or no answer) proves nothing, and the session timeout decides.

Invariant: a broker is fenced early only if its hosts refuse connections for all its listeners.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.controller.active_controller import ActiveController
    from moldau.logging import Logger
    from moldau.runtime import Runtime

DELAYS_SECONDS: Final = (0.02, 0.1, 0.3)
"""The pauses before the attempts. A process that exits closes its connections and its listener one
after the other."""
CONNECT_SECONDS: Final = 1.0


class BrokerProbe:
    """The probes of one node. They run only while the active controller is on this node."""

    def __init__(
        self, runtime: Runtime, active: Callable[[], ActiveController | None], log: Logger
    ) -> None:
        self._runtime = runtime
        self._active = active
        self._log = log
        self._probing: dict[int, asyncio.Task[None]] = {}

    def suspect_all(self, own_id: int) -> None:
        """Probe all other brokers: this node has just become the quorum's leader, and the previous
        leader may be gone."""
        active = self._active()
        if active is not None:
            for broker in list(active.controller.image.brokers.by_id.values()):
                if broker.broker_id != own_id and not broker.is_fenced:
                    self.suspect(broker.broker_id)

    def suspect(self, broker_id: int) -> None:
        """Probe a broker after a connection from it has ended."""
        if self._active() is not None and broker_id not in self._probing:
            task = self._runtime.spawn(self._probe(broker_id), name=f"probe-{broker_id}")
            self._probing[broker_id] = task
            task.add_done_callback(lambda _: self._probing.pop(broker_id, None))

    async def aclose(self) -> None:
        """Stop all probes."""
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
        """Whether no process listens at any of the broker's endpoints."""
        for host, port in endpoints:
            if not await self._is_refused(host, port):
                return False
        return True

    async def _is_refused(self, host: str, port: int) -> bool:
        """Whether every address of the host refuses the connection."""
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
