"""`python -m tests.broker.tiered.tiered_node DIRECTORY PORT NAME=VALUE ...`: a broker with tiered
storage switched on, in a process that a test may kill. It prints a line when it is up."""

from __future__ import annotations

import sys

from moldau.broker.server import Broker
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.server.storage import format_if_empty
from moldau.broker.settings import broker_settings
from moldau.config import overrides
from moldau.logging import Level, Loggers
from moldau.runtime import Runtime
from moldau.runtime.real import run

UP = "up"
HOST = "127.0.0.1"


async def serve(runtime: Runtime) -> None:
    directory, port, *given = sys.argv[1:]
    named = overrides({name: value for name, _, value in (each.partition("=") for each in given)})
    settings = broker_settings(standalone_layer(directory, HOST, int(port)), named)
    format_if_empty(runtime.files, settings, runtime.random, runtime.clock.wall_ms(), HOST)
    loggers = Loggers(runtime.clock, sys.stderr.write, level=Level.INFO)
    broker = await Broker.start(runtime, settings, loggers=loggers, host_name=HOST)
    sys.stdout.write(f"{UP}\n")
    sys.stdout.flush()
    await broker.wait()


if __name__ == "__main__":
    run(serve, node=HOST)
