"""`moldau dev`: a broker, a Connect worker and the console in one process, for experiments.
`--registry` adds a Schema Registry.

The broker is a plugin of the group `moldau.embedded_brokers`, as in tests. With `--dir` its data
are kept; without, they are deleted at the end.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from moldau.logging import Logger
    from moldau.runtime import Runtime

BROKER: Final = 9092
REST: Final = 8083
CONSOLE: Final = 8080
REGISTRY: Final = 8081
FLUSH_INTERVAL_MS: Final = "5000"
"""A worker commits offsets once a minute. Here lag and offsets should be visible sooner."""


class DevCommand:
    """The command `moldau dev`. It imports nothing before it runs."""

    summary = "Run a broker, a Connect worker and the console together, to try things out."

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument("--dir", metavar="DIR", help="keep the broker's data here")
        parser.add_argument("--port", type=int, default=BROKER, help=f"broker; default: {BROKER}")
        parser.add_argument(
            "--listen",
            default=f"127.0.0.1:{REST}",
            metavar="HOST:PORT",
            help=f"the worker's REST API; default: 127.0.0.1:{REST}",
        )
        parser.add_argument(
            "--console",
            default=f"127.0.0.1:{CONSOLE}",
            metavar="HOST:PORT",
            help=f"the console's pages; default: 127.0.0.1:{CONSOLE}",
        )
        parser.add_argument(
            "--registry",
            nargs="?",
            const=f"127.0.0.1:{REGISTRY}",
            metavar="HOST:PORT",
            help=f"a Schema Registry too; default: 127.0.0.1:{REGISTRY}",
        )
        parser.add_argument("--log-level", default="warn", help="default: warn")
        parser.add_argument("--log-json", action="store_true", help="log lines as JSON")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.connect.commands.worker import parse_address
        from moldau.console.command import check_installed
        from moldau.runtime.real import run

        check_installed()
        listen, console = parse_address(arguments.listen), parse_address(arguments.console)
        if arguments.registry is not None:
            from moldau.registry.command import check_installed as check_registry

            check_registry()

        async def main(runtime: Runtime) -> None:
            from moldau.runtime.signals import until_signal

            await until_signal(_serve(runtime, listen, console, arguments, context))

        run(main, node="dev")
        return Exit.DONE


async def _serve(
    runtime: Runtime,
    listen: tuple[str, int],
    console: tuple[str, int],
    arguments: Namespace,
    context: Context,
) -> None:
    from moldau.connect.commands.worker import absolute, make_loggers
    from moldau.connect.herder.shell import forever
    from moldau.connect.server import ConnectWorker, Place
    from moldau.console.server import served
    from moldau.testing import EmbeddedBroker

    directory = None if arguments.dir is None else absolute(arguments.dir)
    async with EmbeddedBroker(directory=directory, port=arguments.port) as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "offset.flush.interval.ms": FLUSH_INTERVAL_MS,
        }
        loggers = make_loggers(runtime, arguments, context)
        worker = ConnectWorker(runtime, settings, Place(listen), loggers)
        try:
            await worker.start()
            shown = {"bootstrap.servers": broker.bootstrap_servers}
            async with AsyncExitStack() as stack:
                address = await stack.enter_async_context(served(runtime, shown, console))
                registry = ""
                if arguments.registry is not None:
                    log = loggers.get("moldau.registry")
                    registered = _registry(runtime, shown, arguments.registry, log)
                    url = await stack.enter_async_context(registered)
                    registry = f"  registry   {url}\n"
                with suppress(BrokenPipeError):
                    context.out.write(
                        "moldau dev is up\n"
                        f"  bootstrap  {broker.bootstrap_servers}\n"
                        f"  rest       http://{worker.herder.worker_id}\n"
                        f"  console    {address}\n"
                        f"{registry}"
                        "Try: moldau connect status\n"
                        "Ctrl-C stops it.\n"
                    )
                    context.out.flush()
                await forever()
        finally:
            await worker.aclose()


def _registry(
    runtime: Runtime, settings: dict[str, str], listen: str, log: Logger
) -> AbstractAsyncContextManager[str]:
    from moldau.registry.command import parse_address
    from moldau.registry.server import Options, served

    return served(runtime, settings, Options(parse_address(listen, "--registry")), log)


command = DevCommand()
