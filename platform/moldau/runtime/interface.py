"""Everything a node may do to the world, in one object: the `Runtime`.

Invariants: code outside `moldau.runtime` has no other door to time, randomness, files, sockets,
tasks and threads (an architecture test holds it to that), and every door behaves the same on the
real and on the simulated side, because one suite of tests runs over both.

Why an object that is passed and not a module of functions: a simulation runs many nodes in one
process, and each has its own clock, disk, addresses and randomness. Sleeping, timeouts, queues and
task groups stay plain asyncio: the simulated event loop runs them unchanged, in virtual time.
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

T = TypeVar("T")
P = TypeVar("P", bound=asyncio.BaseProtocol)

Outcome: TypeAlias = OSError | None
"""What became of something that the disk was asked for."""

ServeStreams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

STREAM_LIMIT_BYTES = 64 * 1024
BACKLOG = 1024


class Syncs(NamedTuple):
    """Files that are being synced: `taken` of those that were given, from the first on."""

    taken: int
    outcomes: asyncio.Future[list[Outcome]]


class Clock(Protocol):
    """The node's two clocks: one that only goes forward, and one that people set."""

    def monotonic_ns(self) -> int:
        """Nanoseconds from some fixed point; never goes back, says nothing about the date."""
        ...

    def monotonic(self) -> float:
        """The same in seconds; the scale of the event loop's `time()`."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970 as this node believes them; may jump in both directions."""
        ...


class Listener(ABC):
    """A bound port. Closing it stops accepting; connections already accepted live on."""

    @property
    @abstractmethod
    def port(self) -> int:
        """The port that was bound, also when 0 was asked for."""

    @property
    @abstractmethod
    def addresses(self) -> list[tuple[str, int]]:
        """Every (host, port) that is bound."""

    @abstractmethod
    def close(self) -> None:
        """Frees the port at once; further connects are refused. May be called again."""

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

    What differs between event loops is levelled here: writing to a transport that is closed or
    closing is silently dropped everywhere (uvloop alone would raise), and `connection_lost` tells.
    """

    @abstractmethod
    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        *,
        backlog: int = BACKLOG,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Accepts connections on `host` (None or "": every address of the node)."""

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
        """Connects; on return `connection_made` has been called. Raises OSError as sockets do."""

    @abstractmethod
    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """The addresses behind a name, in the order they should be tried."""

    async def open_streams(
        self,
        host: str,
        port: int,
        *,
        limit: int = STREAM_LIMIT_BYTES,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """`connect` for code that reads and writes instead of being called."""
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
        """`listen` for code that reads and writes: one task runs `serve` for each connection."""
        loop = asyncio.get_running_loop()

        def factory() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader(limit=limit, loop=loop)
            return asyncio.StreamReaderProtocol(reader, serve, loop=loop)

        return await self.listen(factory, host, port, tls=tls)


class Runtime(ABC):
    """The world as one node sees it."""

    node: str
    clock: Clock
    random: random.Random
    files: Files
    network: Network

    @abstractmethod
    def spawn(
        self, coroutine: Coroutine[Any, Any, T], *, name: str, reported: bool = True
    ) -> asyncio.Task[T]:
        """Runs `coroutine` beside the caller and keeps it alive until it ends.

        asyncio itself holds tasks weakly: one without other references can vanish while it waits.
        An exception that ends the task is reported at once; `reported=False` is for an owner that
        awaits the task and deals with its failure itself. Cancellation is never a failure.
        """

    @abstractmethod
    def run_blocking(self, function: Callable[..., T], /, *args: Any) -> asyncio.Future[T]:
        """Runs what may stall (fsync, long compression) off the event loop; await what it gives.

        It is under way when this returns. Code made of callbacks can take the future as it is.
        Calls made at the same time may run and end in any order. A hop costs more than a write to
        the page cache: hand over batches, and keep short work inline.
        """

    def sync_data(self, files: Sequence[File]) -> Syncs | None:
        """`File.sync(data_only=True)` of as many of these as can be without a thread, beside each
        other; they are under way when this returns. None where there is no such way.
        """
        return None

    @abstractmethod
    def buggify(self, name: str, probability: float = 0.05) -> bool:
        """True at moments when a simulation wants this place to take its rare path.

        Always False in production. `name` is stable and unique to the place: activations are
        counted by it.
        """
