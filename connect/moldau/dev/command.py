"""`moldau dev`: a broker, a Connect worker, a Schema Registry, the console and the project of the
folder in one command, for experiments.

The broker is a plugin of the group `moldau.embedded_brokers`, as in tests. It, the worker, the
registry and the console share this process; the project has one of its own (`app`). Everything
is kept in one directory, which a lock gives to one `moldau dev` at a time.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from moldau.cli.addresses import host_and_port
from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.log_format import add_log_format
from moldau.connect.commands.summaries import SUMMARIES
from moldau.dev.project import DIRECTORY, PIPELINE, DevProject, project_of
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from moldau.logging import Loggers
    from moldau.runtime import Runtime
    from moldau.runtime.files import FileLock, Files

BROKER: Final = 9092
REST: Final = 8083
CONSOLE: Final = 8080
REGISTRY: Final = 8081
FLUSH_INTERVAL_MS: Final = "5000"
"""A worker commits offsets once a minute. Here lag and offsets should be visible sooner."""
_PARTS: Final = ("broker", "streams", "connect", PIPELINE)
"""The directories of data that `--fresh` removes."""
_LOCK: Final = "dev.lock"

Address = tuple[str, int]


class DevCommand:
    """The command `moldau dev`. It imports nothing before it runs."""

    summary = SUMMARIES["dev"]

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument(
            "--dir", default=DIRECTORY, metavar="DIR", help=f"keep the data here; {DIRECTORY}"
        )
        parser.add_argument(
            "--fresh", action="store_true", help="remove the data of earlier runs first"
        )
        parser.add_argument(
            "--no-app", action="store_true", help="do not run the project of this folder"
        )
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
        registry = parser.add_mutually_exclusive_group()
        registry.add_argument(
            "--registry",
            nargs="?",
            const=f"127.0.0.1:{REGISTRY}",
            metavar="HOST:PORT",
            help=f"the Schema Registry; default: 127.0.0.1:{REGISTRY} if its extra is installed",
        )
        registry.add_argument("--no-registry", action="store_true", help="no Schema Registry")
        parser.add_argument("--log-level", default="warn", help="default: warn")
        add_log_format(parser)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.connect.commands.worker import absolute, parse_address
        from moldau.console.command import check_installed
        from moldau.runtime.real import run
        from moldau.runtime.real_files import RealFiles

        check_installed()
        folder, files = absolute("."), RealFiles()
        project = DevProject() if arguments.no_app else project_of(folder, files)
        rest = parse_address(arguments.listen)
        console = host_and_port(arguments.console, "--console")
        registry = _registry_address(arguments)
        directory = absolute(arguments.dir)
        with _locked(files, directory):
            if arguments.fresh:
                for name in _PARTS:
                    if files.exists(f"{directory}/{name}"):
                        files.remove_tree(f"{directory}/{name}")

            async def main(runtime: Runtime) -> None:
                from moldau.runtime.signals import until_signal

                dev = Dev(runtime, arguments, context, (folder, directory))
                await until_signal(dev.run(project, rest, console, registry))

            for warning in _open_warnings(console, registry):
                context.err.write(f"moldau: {warning}\n")
            run(main, node="dev")
        return Exit.DONE


def _registry_address(arguments: Namespace) -> Address | None:
    """Return where the registry listens; None if there is none. One that is asked for must be
    installed; the one by default comes along if it is."""
    from moldau.errors import ConfigError
    from moldau.registry.command import check_installed

    if arguments.no_registry:
        return None
    try:
        check_installed()
    except ConfigError:
        if arguments.registry is not None:
            raise
        return None
    return host_and_port(arguments.registry or f"127.0.0.1:{REGISTRY}", "--registry")


def _open_warnings(console: Address, registry: Address | None) -> list[str]:
    """Return a warning for each part that is open to the network. The worker logs its own."""
    from moldau.console.command import open_warning as console_warning
    from moldau.link.http.protection import HttpProtection

    of_console = "--http-config or --oidc-issuer of `moldau console`"
    found = [console_warning(HttpProtection(), console[0], is_admin=True, cure=of_console)]
    if registry is not None:
        from moldau.registry.command import open_warning
        from moldau.registry.server import Options

        of_registry = "--http-config of `moldau registry start`"
        found.append(open_warning(Options(registry), of_registry))
    return [each for each in found if each is not None]


def _locked(files: Files, directory: str) -> FileLock:
    """Make the directory, which no version control takes along, and lock it."""
    files.make_dirs(directory)
    try:
        lock = files.lock(f"{directory}/{_LOCK}")
    except BlockingIOError:
        raise UsageError(
            f"another moldau dev runs on {directory}: stop it, or give --dir"
        ) from None
    if not files.exists(f"{directory}/.gitignore"):
        with files.open(f"{directory}/.gitignore", "create") as file:
            file.append(b"*\n")
    return lock


def _check_port(port: int) -> None:
    """Raise MoldauError if another process listens at the broker's port."""
    from moldau.runtime.holders import port_in_use

    problem = port_in_use("127.0.0.1", port, f"another, as --port {port + 1}")
    if problem is not None:
        raise MoldauError(problem, address=f"127.0.0.1:{port}")


class Dev:
    """One run of `moldau dev`."""

    def __init__(
        self, runtime: Runtime, arguments: Namespace, context: Context, places: tuple[str, str]
    ) -> None:
        """`places` are the folder of the project and the directory of the data."""
        from moldau.connect.commands.worker import make_loggers

        self._runtime = runtime
        self._port = arguments.port
        self._context = context
        self._folder, self._directory = places
        self._loggers: Loggers = make_loggers(runtime, arguments, context)

    async def run(
        self, project: DevProject, rest: Address, console: Address, registry: Address | None
    ) -> None:
        """Serve until cancelled."""
        from moldau.cli.commands.registry_place import URL
        from moldau.connect.herder.herder import forever
        from moldau.console.apis.connect import CONNECT
        from moldau.console.apis.nodes import LISTENER as METRICS
        from moldau.console.apis.services import PIPELINES, STREAMS
        from moldau.console.server import connection_of, serving
        from moldau.runtime.node_processes import free_ports
        from moldau.testing import EmbeddedBroker

        async with AsyncExitStack() as stack:
            _check_port(self._port)
            metrics, shown_at = free_ports(2)
            broker = await stack.enter_async_context(
                EmbeddedBroker(
                    {METRICS: f"127.0.0.1:{metrics}"},
                    directory=f"{self._directory}/broker",
                    port=self._port,
                )
            )
            clients = {"bootstrap.servers": broker.bootstrap_servers}
            lines = [f"bootstrap  {broker.bootstrap_servers}"]
            if project.brings_worker:  # it is told where to listen before it starts
                rest = (rest[0], rest[1] or free_ports(1)[0])
                worker = f"{rest[0]}:{rest[1]}"
            else:
                worker = await stack.enter_async_context(self._worker(clients, rest))
            shown = {**clients, CONNECT: f"http://{worker}"}
            if registry is not None:
                shown[URL] = await stack.enter_async_context(self._registry(clients, registry))
            if project.app is not None or project.pipeline is not None:
                kind = STREAMS if project.app is not None else PIPELINES
                shown[kind] = f"{project.shown_as}=http://127.0.0.1:{shown_at}"
            connection = connection_of(self._runtime, shown, broker.topics)
            pages = serving(self._runtime, connection, console)
            address = await stack.enter_async_context(pages)
            lines += [f"rest       {shown[CONNECT]}", f"console    {address}"]
            if registry is not None:
                lines.append(f"registry   {shown[URL]}")
            if project.title is not None:
                lines.append(f"project    {project.title}")
            self._report("moldau dev is up")
            hint = () if project.title else ("Try: moldau connect status",)
            for each in (*(f"  {line}" for line in lines), *hint, "Ctrl-C stops it."):
                self._report(each)
            if project.title is None:
                await forever()
            await self._app(project, broker.bootstrap_servers, rest, shown_at)

    def _report(self, line: str) -> None:
        with suppress(BrokenPipeError):
            self._context.out.write(f"{line}\n")
            self._context.out.flush()

    @asynccontextmanager
    async def _worker(self, clients: dict[str, str], rest: Address) -> AsyncIterator[str]:
        from moldau.connect.server import ConnectWorker, WorkerLocation
        from moldau.connect.task.file_places import FILE_DIRECTORIES

        settings = {
            **clients,
            "offset.flush.interval.ms": FLUSH_INTERVAL_MS,
            FILE_DIRECTORIES: self._folder,
        }
        worker = ConnectWorker(self._runtime, settings, WorkerLocation(rest), self._loggers)
        try:
            await worker.start()
            yield str(worker.herder.worker_id)
        finally:
            await worker.aclose()

    def _registry(
        self, clients: dict[str, str], listen: Address
    ) -> AbstractAsyncContextManager[str]:
        from moldau.registry.server import Options, served

        return served(self._runtime, clients, Options(listen), self._loggers.get("moldau.registry"))

    async def _app(self, project: DevProject, bootstrap: str, rest: Address, port: int) -> None:
        from moldau.dev.app import DevApp

        async def prepare(found: DevProject) -> None:
            await make_topics(bootstrap, found.topics, self._runtime)

        def words(found: DevProject) -> list[str]:
            return found.words(bootstrap, rest, self._directory, port)

        await DevApp(self._folder, self._runtime, words, prepare, self._report).run(project)


async def make_topics(bootstrap: str, topics: dict[str, int], runtime: Runtime) -> None:
    """Make the topics that do not exist; those that do keep their partitions."""
    from moldau.client import Admin, NewTopic
    from moldau.errors.codes import ErrorCode, KafkaError

    if not topics:
        return
    async with Admin({"bootstrap.servers": bootstrap}, runtime=runtime) as admin:
        made = await admin.create_topics(NewTopic(name, count) for name, count in topics.items())
        for result in made.values():
            if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise result


command = DevCommand()
