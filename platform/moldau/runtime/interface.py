"""Everything that a node may do to the outside world, in one object: the `Runtime`.

Invariants: code outside `moldau.runtime` has no other access to time, randomness, files, sockets,
tasks and threads (an architecture test checks it), and all of them behave the same in the real and
the simulated runtime, because one suite of tests runs on both.

It is an object that is passed, and not a module of functions, because a simulation runs many nodes
in one process, each with its own clock, disk, addresses and randomness. Sleeping, timeouts, queues
and task groups stay plain asyncio: the simulated event loop runs them unchanged, in virtual time.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import random
    import ssl
    from types import TracebackType

    from moldau.runtime.files import File, Files
    from moldau.runtime.tls import TlsServer

T = TypeVar("T")
P = TypeVar("P", bound=asyncio.BaseProtocol)

Outcome: TypeAlias = OSError | None
"""The result of an operation of the disk: None, or its error."""

ServeStreams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

STREAM_LIMIT_BYTES = 64 * 1024
BACKLOG = 1024


class Syncs(NamedTuple):
    """Files that are being synced: the first `taken` of the given ones."""

    taken: int
    outcomes: asyncio.Future[list[Outcome]]


class Clock(Protocol):
    """The node's two clocks: one that only goes forward, and one that people set."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since some fixed point; they never decrease and are no date."""
        ...

    def monotonic(self) -> float:
        """Return the same time in seconds; the scale of the event loop's `time()`."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 on this node's wall clock; it may jump either way."""
        ...


class Listener(ABC):
    """A bound port. Closing it ends the accepting; accepted connections stay open."""

    @property
    @abstractmethod
    def port(self) -> int:
        """The bound port, also if port 0 was requested."""

    @property
    @abstractmethod
    def addresses(self) -> list[tuple[str, int]]:
        """Every bound (host, port)."""

    @abstractmethod
    def close(self) -> None:
        """Free the port at once; further connects are refused. It may be called again."""

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Network(ABC):
    """Byte streams between nodes, as asyncio protocols or as reader and writer.

    Differences between event loops are hidden here: writing to a transport that is closed or
    closing is silently dropped everywhere (uvloop alone would raise), and `connection_lost` reports
    the end.
    """

    has_sockets = True
    """Whether its addresses are those of the machine's sockets; not in a simulation."""

    @abstractmethod
    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        *,
        backlog: int = BACKLOG,
        tls: ssl.SSLContext | TlsServer | None = None,
    ) -> Listener:
        """Accept connections on `host` (None or "": every address of the node). A `TlsServer` needs
        a factory of `asyncio.BufferedProtocol`. In a simulation TLS is left out: the bytes pass as
        they are."""

    @abstractmethod
    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Connect; on return `connection_made` has been called. Raise OSError as sockets do."""

    @abstractmethod
    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """Return the addresses behind a name, in the order in which to try them."""

    async def open_streams(
        self,
        host: str,
        port: int,
        *,
        limit: int = STREAM_LIMIT_BYTES,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as `connect` does, for code that reads and writes instead of using callbacks."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await self.connect(
            lambda: protocol, host, port, tls=tls, server_name=server_name
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def serve_streams(
        self,
        serve: ServeStreams,
        host: str | None,
        port: int,
        *,
        limit: int = STREAM_LIMIT_BYTES,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Listen as `listen` does, but run `serve` in a task for each connection."""
        loop = asyncio.get_running_loop()

        def factory() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader(limit=limit, loop=loop)
            return asyncio.StreamReaderProtocol(reader, serve, loop=loop)

        return await self.listen(factory, host, port, tls=tls)


class Runtime(ABC):
    """The outside world from the view of one node."""

    node: str
    clock: Clock
    random: random.Random
    files: Files
    network: Network

    @abstractmethod
    def spawn(
        self, coroutine: Coroutine[Any, Any, T], *, name: str, reported: bool = True
    ) -> asyncio.Task[T]:
        """Run `coroutine` beside the caller and keep it alive until it ends.

        asyncio itself refers to tasks only weakly: one without other references can vanish while it
        waits. An exception that ends the task is reported at once; `reported=False` is for an owner
        that awaits the task and handles its failure itself. A cancellation is never a failure.
        """

    @abstractmethod
    def run_blocking(self, function: Callable[..., T], /, *args: Any) -> asyncio.Future[T]:
        """Run a function that may stall (fsync, long compression) off the event loop; await the
        future.

        It is under way when this returns. Code with callbacks can use the future as it is. Calls
        made at the same time may run and end in any order. Changing threads costs more than a write
        to the page cache: pass batches, and keep short work inline.
        """

    def sync_data(self, files: Sequence[File]) -> Syncs | None:
        """Do `File.sync(data_only=True)` for as many of these as possible without a thread, in
        parallel; they are under way when this returns. Return None if there is no such way."""
        return None

    @abstractmethod
    def buggify(self, name: str, probability: float = 0.05) -> bool:
        """Return True at moments when a simulation wants this place to take its rare path.

        It is always False in production. `name` is stable and unique to the place: activations are
        counted by it.
        """
