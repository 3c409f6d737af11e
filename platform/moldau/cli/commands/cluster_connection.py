"""The parts that all commands with a cluster share: connection arguments, settings, the client.

The client runs on an event loop in a thread of its own. So the command itself may wait for its
input, and Ctrl-C ends it wherever it waits.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from moldau.cli.command import Context, UsageError
from moldau.cli.names import typed_name, typed_value
from moldau.cli.output import write_lines

if TYPE_CHECKING:
    from moldau.cli.profiles import Profile
    from moldau.client.admin.admin import Admin
    from moldau.client.serdes.registry.client import SchemaRegistry
    from moldau.config import Source
    from moldau.errors.codes import KafkaError
    from moldau.runtime.interface import Runtime
    from moldau.runtime.threaded import ThreadedRuntime

BOOTSTRAP_VARIABLE: Final = "MOLDAU_BOOTSTRAP"
BOOTSTRAP_DEFAULT: Final = "localhost:9092"
CONFIG_VARIABLE: Final = "MOLDAU_COMMAND_CONFIG"
PROFILE: Final = "profile"
# A person at a terminal does not wait a minute for the error that the address is wrong.
_SETTINGS: Final = {
    "default.api.timeout.ms": "20000",
    "start.timeout.ms": "0",
    "client.id": "moldau-cli",
}


class ClosableClient(Protocol):
    """A client with connections to close."""

    async def aclose(self) -> None: ...


class Client(ClosableClient, Protocol):
    """The methods that producers, consumers and admin clients share."""

    async def start(self) -> None: ...


B = TypeVar("B", bound=ClosableClient)
C = TypeVar("C", bound=Client)
T = TypeVar("T")
K = TypeVar("K")


def add_action_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of `add_connection_arguments`, and a `--debug` after an action's name."""
    add_connection_arguments(parser)
    parser.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)


def add_connection_arguments(
    parser: ArgumentParser, *, json_help: str = "write JSON", otherwise: str = BOOTSTRAP_DEFAULT
) -> None:
    """Add `--bootstrap`, `--set`, `--command-config` and `--json` to a command; `otherwise` says
    which cluster it is if none is named."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        "--bootstrap-server",  # as in Kafka's own tools
        metavar="HOST:PORT[,...]",
        help="where the cluster is; else as in --command-config, else "
        f"${BOOTSTRAP_VARIABLE}, else {otherwise}",
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
        f"--set and --bootstrap win; else ${CONFIG_VARIABLE}",
    )
    parser.add_argument("--json", action="store_true", help=json_help)


class ClientSettings(dict[str, str]):
    """Client settings by Kafka's names, with the option or file that each one came from."""

    def __init__(self, defaults: Mapping[str, str]) -> None:
        super().__init__(defaults)
        self.sources: dict[str, Source] = {}

    def take(self, given: Mapping[str, str], kind: str, where: str) -> None:
        """Add settings, which override existing ones; `kind` is the name of a SourceKind."""
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
    """Return the client settings of these arguments. Settings in `useless` are ignored if they come
    from a file, which may have been written for another client."""
    bootstrap = "bootstrap.servers"
    settings = ClientSettings({**_SETTINGS, **(defaults or {}), bootstrap: BOOTSTRAP_DEFAULT})
    kept = profile_settings(context, arguments.bootstrap, arguments.command_config)
    if kept:
        kept = {name: value for name, value in kept.items() if name not in useless}
        settings.take(kept, "FILE", f"{PROFILE} {context.profile.name}")
    if BOOTSTRAP_VARIABLE in context.environment and context.profile_name is None:
        given = {bootstrap: context.environment[BOOTSTRAP_VARIABLE]}
        settings.take(given, "ENVIRONMENT", BOOTSTRAP_VARIABLE)
    path = arguments.command_config or (
        context.environment.get(CONFIG_VARIABLE) if context.profile_name is None else None
    )
    if path:
        settings.take(_given_in_file(path, context, useless), "FILE", path)
    if arguments.bootstrap:
        settings.take({bootstrap: arguments.bootstrap}, "COMMAND_LINE", "--bootstrap")
    for word in arguments.client_settings:  # the last of a name wins, as for all `--set`
        settings.take(assignments([word]), "COMMAND_LINE", "--set")
    return settings


def profile_beside(context: Context, *named: str | None) -> Profile:
    """Return the profile. One that is merely in use is empty where something else names a cluster,
    as `named` or the environment: its passwords are for its own."""
    from moldau.cli.profiles import NONE

    environment = context.environment
    others = (*named, environment.get(BOOTSTRAP_VARIABLE), environment.get(CONFIG_VARIABLE))
    if any(others) and not context.is_profile_asked_for:
        return NONE.profile
    return context.profile.profile


def profile_settings(context: Context, *named: str | None) -> dict[str, str]:
    """Return the client settings of that profile."""
    return dict(profile_beside(context, *named).settings)


def bootstrap_named(context: Context) -> str | None:
    """Return the address of the environment or of the profile, without an option of the command."""
    variable = context.environment.get(BOOTSTRAP_VARIABLE)
    if variable and context.profile_name is None:
        return variable
    return context.profile.profile.settings.get("bootstrap.servers")


@contextmanager
def naming_source(settings: ClientSettings) -> Iterator[None]:
    """Add the source of each setting to a BadSettings error of the block."""
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
    """Raise UsageError if one of these (de)serializer settings is set: bytes are used as given."""
    for name in names:
        if name in settings:
            raise UsageError(f"{name} cannot be set here: keys and values are bytes")


def _given_in_file(path: str, context: Context, useless: Collection[str]) -> dict[str, str]:
    from moldau.client.base.file import read_settings

    given, notices = read_settings(path)
    write_lines(context.err, (f"moldau: {each}" for each in notices))
    passed_over = [name for name in given if name in useless]
    if passed_over:
        names = ", ".join(passed_over)
        line = f"moldau: passed over what this command has no use for: {names}"
        write_lines(context.err, [line])
    return {name: value for name, value in given.items() if name not in useless}


def assignments(words: Iterable[str], named: str = "setting") -> dict[str, str]:
    """Return `name=value` words as a mapping; `named` says what the names are, for errors. A name
    that is given twice raises UsageError, since one of its values would be lost."""
    found: dict[str, str] = {}
    for name, value in named_values(words):
        typed_name(name, named)
        if name in found:
            raise UsageError(f"{name} is given twice")
        found[name] = typed_value(value, name)
    return found


def named_values(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of `name=value` words, in their order."""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{word!r} is not NAME=VALUE")
        yield name, value


Naming: TypeAlias = "Callable[[KafkaError], KafkaError]"


def _as_it_is(error: KafkaError) -> KafkaError:
    return error


class OpenClient(Generic[B]):
    """A connected client; `run` gives it an action and waits for the result."""

    def __init__(
        self, threaded: ThreadedRuntime, runtime: Runtime, client: B, naming: Naming
    ) -> None:
        from moldau.cli.shell import Interruptible

        self.client = client
        self.runtime = runtime
        self._threaded = threaded
        self._naming = naming
        self._work = Interruptible()

    def run(self, action: Callable[[B], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `action(client)`. Ctrl-C ends the action first, then is raised. The
        error of an unknown topic or group names the nearest one, and that of a missing right names
        the right, also in the result."""
        from moldau.cli.missing_right import errors_in
        from moldau.errors.codes import KafkaError

        try:
            result = self._threaded.run(lambda _: self._work.run(action(self.client)))
            for error in errors_in(result):
                error.reason = self._naming(error).reason
            return result
        except KeyboardInterrupt:
            self._threaded.run(lambda _: self._work.stop())
            raise
        except KafkaError as error:
            (named,) = self.naming_nearest([error])
            if named is error:
                raise
            raise named from error

    def naming_nearest(self, errors: Iterable[KafkaError]) -> list[KafkaError]:
        """Return the errors, with the nearest name for topics and groups that do not exist, and
        with the rights that are missing."""
        from moldau.cli.nearest import naming_nearest

        found = self._threaded.run(lambda _: naming_nearest(self.client, errors))
        return [self._naming(each) for each in found]

    def failures(self, results: Mapping[K, KafkaError | None]) -> dict[K, KafkaError]:
        """Return what failed of an action on several things, with errors of `naming_nearest`."""
        failed = {each: error for each, error in results.items() if error is not None}
        return dict(zip(failed, self.naming_nearest(failed.values()), strict=True))


@contextmanager
def opened(make: Callable[[Runtime], C], naming: Naming = _as_it_is) -> Iterator[OpenClient[C]]:
    """Start the client that `make(runtime)` returns, and close it at the end of the block. `naming`
    names the right that an error is about."""

    async def start(runtime: Runtime) -> C:
        client = make(runtime)
        await client.start()
        return client

    with _connected(start, naming) as ready:
        yield ready


@contextmanager
def opened_registry(settings: Mapping[str, object]) -> Iterator[OpenClient[SchemaRegistry]]:
    """Make the client of a registry, and close it at the end of the block. It connects with the
    first request."""
    from moldau.client.serdes.registry.client import SchemaRegistry

    async def make(runtime: Runtime) -> SchemaRegistry:
        return SchemaRegistry(settings, runtime=runtime)

    with _connected(make, _as_it_is) as ready:
        yield ready


@contextmanager
def _connected(
    make: Callable[[Runtime], Coroutine[Any, Any, B]], naming: Naming
) -> Iterator[OpenClient[B]]:
    from moldau.runtime.threaded import ThreadedRuntime

    with ThreadedRuntime("moldau-cli") as threaded:

        async def ready_client(runtime: Runtime) -> OpenClient[B]:
            return OpenClient(threaded, runtime, await make(runtime), naming)

        ready = threaded.run(ready_client)
        try:
            yield ready
        finally:
            ready.run(lambda client: client.aclose())


@contextmanager
def opened_admin(arguments: Namespace, context: Context) -> Iterator[OpenClient[Admin]]:
    """Start the admin client of these arguments, and close it at the end of the block."""
    from moldau.cli.missing_right import naming_right
    from moldau.client.admin.admin import Admin

    settings = client_settings(arguments, context)
    with (
        naming_source(settings),
        opened(
            lambda runtime: Admin(settings, runtime=runtime),
            lambda error: naming_right(error, arguments, context),
        ) as ready,
    ):
        yield ready


def on_cluster(
    arguments: Namespace, context: Context, action: Callable[[Admin], Coroutine[Any, Any, T]]
) -> T:
    """Return the result of one action on the cluster of these arguments."""
    with opened_admin(arguments, context) as admin:
        return admin.run(action)
