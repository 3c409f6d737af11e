"""Brokers for tests: on any event loop, in a directory that outlives them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from moldau.broker.server import Broker
from moldau.broker.server.standalone import CLIENTS, standalone_layer
from moldau.broker.server.storage import format_if_empty
from moldau.broker.settings import broker_settings
from moldau.config import Settings, overrides
from moldau.logging import Level, Loggers
from moldau.runtime import Runtime
from tests.broker.server.wire import Wire, wired
from tests.runtime.arena import HOST


class House:
    """A directory, and the brokers that live in it one after the other."""

    def __init__(self, runtime: Runtime, directory: str, host: str = HOST) -> None:
        self.runtime = runtime
        self.directory = directory
        self.host = host
        self.lines: list[str] = []
        self.level = Level.INFO
        self.port = 0

    def settings(self, **given: str) -> Settings:
        """Of a node by itself, with other ones over them; underscores for dots."""
        named = {name.replace("_", "."): value for name, value in given.items()}
        ground = standalone_layer(self.directory, self.host, self.port)
        return broker_settings(ground, overrides(dict(named)))

    async def start(self, **given: str) -> Broker:
        """A broker; its lines are kept."""
        runtime, settings = self.runtime, self.settings(**given)
        format_if_empty(runtime.files, settings, runtime.random, runtime.clock.wall_ms(), self.host)
        loggers = Loggers(runtime.clock, self.lines.append, level=self.level)
        broker = await Broker.start(runtime, settings, loggers=loggers, host_name=self.host)
        if CLIENTS in broker.endpoints:
            self.port = broker.endpoints[CLIENTS].port
        return broker

    @asynccontextmanager
    async def open(self, **given: str) -> AsyncIterator[tuple[Broker, Wire]]:
        """A broker that runs, and a client of it."""
        broker = await self.start(**given)
        try:
            async with wired(self.runtime, *broker.endpoints[CLIENTS]) as wire:
                yield broker, wire
        finally:
            await broker.aclose()

    def wire_of(self, broker: Broker) -> AbstractAsyncContextManager[Wire]:
        """A client of a broker that the test ends itself."""
        return wired(self.runtime, *broker.endpoints[CLIENTS])

    def complaints(self) -> list[str]:
        """Lines of warnings and errors."""
        return [line for line in self.lines if " WARN " in line or " ERROR " in line]


@asynccontextmanager
async def house(runtime: Runtime) -> AsyncIterator[House]:
    """For the time of a test."""
    directory = runtime.files.temporary_dir("moldau-house-")
    try:
        yield House(runtime, directory)
    finally:
        runtime.files.remove_tree(directory)
