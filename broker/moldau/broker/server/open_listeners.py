"""The listeners of a broker that open and close while it runs, as its dynamic settings name them.

A new listener is not advertised before the next start, as in Kafka: it is for clients that are told
its address, such as a proxy in front of it.

Invariants: a listener that is advertised stays open until the broker ends, because other nodes and
clients know its address. A listener whose address or protocol is changed keeps the old ones until
the next start. A listener that cannot be opened leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from moldau.broker.settings import read_listeners
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.broker.network import SocketServer
    from moldau.broker.settings import Listener, Listeners
    from moldau.config import Settings
    from moldau.logging import Logger


class OpenListeners:
    """The listeners for clients of one broker, from its start on."""

    def __init__(
        self,
        sockets: SocketServer,
        bind: Callable[[Settings, Listener, Listeners], Awaitable[int]],
        at_start: Listeners,
        log: Logger,
    ) -> None:
        """`bind` opens a listener and returns its port; those of `at_start` are open."""
        self._sockets = sockets
        self._bind = bind
        self._open = {each.name: each for each in at_start.of_broker}
        self._advertised: Collection[str] = frozenset(
            each.name for each in at_start.advertised_broker
        )
        self._log = log
        self._wanted: Settings | None = None
        self._is_changing = False

    async def apply(self, settings: Settings) -> None:
        """Open and close what the settings say. Of several changes at once the last one counts."""
        self._wanted = settings
        if self._is_changing:
            return
        self._is_changing = True
        try:
            while (wanted := self._wanted) is not None:
                self._wanted = None
                await self._change(wanted)
        finally:
            self._is_changing = False

    async def _change(self, settings: Settings) -> None:
        listeners = read_listeners(settings)
        wanted = {each.name: each for each in listeners.of_broker}
        for name in [each for each in self._open if each not in wanted]:
            if name in self._advertised:
                self._log.warn("an advertised listener closes at the next start", listener=name)
                continue
            del self._open[name]
            self._sockets.close_listener(name)
            self._log.info("closed a listener", listener=name)
        for name, each in wanted.items():
            known = self._open.get(name)
            if known is None:
                await self._bind_new(settings, each, listeners)
            elif known != each:
                self._log.warn("a changed listener counts from the next start", listener=name)

    async def _bind_new(self, settings: Settings, listener: Listener, listeners: Listeners) -> None:
        try:
            await self._bind(settings, listener, listeners)
        except MoldauError as error:
            self._log.failure("a listener cannot be opened", error, listener=listener.name)
            return
        self._open[listener.name] = listener
