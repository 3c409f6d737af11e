"""What all commands that talk to a cluster have in common: where it is, and how to get there.

The client runs on an event loop in a thread of its own. So the command itself may wait for its
input, and Ctrl-C ends it wherever it waits.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from moldau.cli.command import Context, UsageError
from moldau.cli.names import typed_name, typed_value
from moldau.cli.output import write_lines

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.config import Source
    from moldau.runtime.interface import Runtime
    from moldau.runtime.threaded import ThreadedRuntime

BOOTSTRAP_VARIABLE: Final = "MOLDAU_BOOTSTRAP"
BOOTSTRAP_DEFAULT: Final = "localhost:9092"
# A person at a terminal does not wait a minute to hear that the address is wrong.
_SETTINGS: Final = {
    "default.api.timeout.ms": "20000",
    "start.timeout.ms": "0",
    "client.id": "moldau-cli",
}


class Client(Protocol):
    """Producer, consumer and admin alike."""

    async def start(self) -> None: ...

    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Client)
T = TypeVar("T")


def add_action_arguments(parser: ArgumentParser) -> None:
    """As `add_connection_arguments`, for a command's action: `moldau topic list --debug`."""
    add_connection_arguments(parser)
    parser.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)


def add_connection_arguments(parser: ArgumentParser) -> None:
    """`--bootstrap` and its like, for a command."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        "--bootstrap-server",  # as in Kafka's own tools
        metavar="HOST:PORT[,...]",
        help="where the cluster is; else as in --command-config, else "
        f"${BOOTSTRAP_VARIABLE}, else {BOOTSTRAP_DEFAULT}",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="client_settings",
        help="a setting of the client, by Kafka's name; may be repeated",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="settings of the client: .properties, unless the name ends as of TOML, YAML or JSON; "
        "--set and --bootstrap win",
    )
    parser.add_argument("--json", action="store_true", help="write JSON")


class ClientSettings(dict[str, str]):
    """Settings by Kafka's names. Remembers for each where the user gave it (option or file)."""

    def __init__(self, defaults: Mapping[str, str]) -> None:
        super().__init__(defaults)
        self.sources: dict[str, Source] = {}

    def take(self, given: Mapping[str, str], kind: str, where: str) -> None:
        """These win over what was there; `kind` is that of a source."""
        from moldau.config import Source, SourceKind

        self.update(given)
        self.sources |= dict.fromkeys(given, Source(SourceKind[kind], where))


def client_settings(
    arguments: Namespace,
    context: Context,
    defaults: dict[str, str] | None = None,
    *,
    useless: Collection[str] = (),
) -> ClientSettings:
    """The settings of the client that these arguments describe. `useless` ones are passed over in a
    file, which may have been written for another client."""
    bootstrap = "bootstrap.servers"
    settings = ClientSettings({**_SETTINGS, **(defaults or {}), bootstrap: BOOTSTRAP_DEFAULT})
    if BOOTSTRAP_VARIABLE in context.environment:
        given = {bootstrap: context.environment[BOOTSTRAP_VARIABLE]}
        settings.take(given, "ENVIRONMENT", BOOTSTRAP_VARIABLE)
    if arguments.command_config is not None:
        given = _given_in_file(arguments.command_config, context, useless)
        settings.take(given, "FILE", arguments.command_config)
    if arguments.bootstrap:
        settings.take({bootstrap: arguments.bootstrap}, "COMMAND_LINE", "--bootstrap")
    for word in arguments.client_settings:  # the last of a name wins, as for all `--set`
        settings.take(assignments([word]), "COMMAND_LINE", "--set")
    return settings


@contextmanager
def telling_where(settings: ClientSettings) -> Iterator[None]:
    """Those of them that cannot be used are told with what has given them."""
    from dataclasses import replace

    from moldau.config import BadSettings

    try:
        yield
    except BadSettings as error:
        raise BadSettings(
            replace(each, source=settings.sources.get(each.name, each.source))
            for each in error.problems
        ) from error


def check_not_set(settings: Mapping[str, str], names: Iterable[str]) -> None:
    """UsageError where bytes would not be taken as they are."""
    for name in names:
        if name in settings:
            raise UsageError(f"{name} cannot be set here: keys and values are bytes")


def _given_in_file(path: str, context: Context, useless: Collection[str]) -> dict[str, str]:
    from moldau.client.settings.file import load_settings

    given = load_settings(path)
    passed_over = [name for name in given if name in useless]
    if passed_over:
        names = ", ".join(passed_over)
        line = f"moldau: passed over what this command has no use for: {names}"
        write_lines(context.err, [line])
    return {name: value for name, value in given.items() if name not in useless}


def assignments(words: Iterable[str], named: str = "setting") -> dict[str, str]:
    """`name=value` words as a mapping; `named`: what has such names. A name that stands there twice
    is refused: one of the values would be dropped without a word."""
    found: dict[str, str] = {}
    for name, value in named_values(words):
        typed_name(name, named)
        if name in found:
            raise UsageError(f"{name} is given twice")
        found[name] = typed_value(value, name)
    return found


def named_values(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names and values of `name=value` words, in their order."""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{word!r} is not NAME=VALUE")
        yield name, value


class Opened(Generic[C]):
    """A client that is connected; `run` gives it something to do and waits."""

    def __init__(self, threaded: ThreadedRuntime, runtime: Runtime, client: C) -> None:
        from moldau.cli.shell import Interruptible

        self.client = client
        self.runtime = runtime
        self._threaded = threaded
        self._work = Interruptible()

    def run(self, action: Callable[[C], Coroutine[Any, Any, T]]) -> T:
        """What `action(client)` returns; Ctrl-C ends the action before it goes on its way."""
        try:
            return self._threaded.run(lambda _: self._work.run(action(self.client)))
        except KeyboardInterrupt:
            self._threaded.run(lambda _: self._work.stop())
            raise


@contextmanager
def opened(make: Callable[[Runtime], C]) -> Iterator[Opened[C]]:
    """The client that `make(runtime)` makes, started, and closed at the end."""
    from moldau.runtime.threaded import ThreadedRuntime

    with ThreadedRuntime("moldau-cli") as threaded:

        async def start(runtime: Runtime) -> Opened[C]:
            client = make(runtime)
            await client.start()
            return Opened(threaded, runtime, client)

        ready = threaded.run(start)
        try:
            yield ready
        finally:
            ready.run(lambda client: client.aclose())


@contextmanager
def opened_admin(arguments: Namespace, context: Context) -> Iterator[Opened[Admin]]:
    """The admin client of these arguments."""
    from moldau.client.admin.admin import Admin

    settings = client_settings(arguments, context)
    with (
        telling_where(settings),
        opened(lambda runtime: Admin(settings, runtime=runtime)) as ready,
    ):
        yield ready
