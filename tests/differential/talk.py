"""A conversation with one broker, and the transcript of it.

    async def scenario(talk: Talk) -> None:
        await talk.topic("t", partitions=2)
        await talk.ask("newest", list_offsets(-1, "t"), versions(ListOffsetsRequest))

`ask` is a case: its request, its answer and, with `wait_ms`, whether the broker waited go into the
transcript under its label. What else a scenario does (`topic`, `write`, `until`) only prepares.

Invariants: a transcript names each label once; what a broker does instead of answering (it closes
the connection, or says nothing) is an outcome like any other, and the next case has a connection
that works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import Any, Final, TypeVar
from zlib import crc32

from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import API, response_class
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.list_offsets import ListOffsetsResponse
from moldau.protocol.messages.produce import ProduceResponse
from moldau.runtime import Runtime
from tests.broker.api.requests import list_offsets, produce
from tests.differential import log_files
from tests.differential.plain import Symbols, fingerprint, plain
from tests.differential.requests import new_settings, new_topic

R = TypeVar("R", bound=Response)

CLIENT: Final = "moldau-differential"
CLOSED: Final = "the connection is closed"
SILENCE: Final = "no answer"
PATIENCE_S: Final = 3.0
_SETTLED_S: Final = 60.0
_POLL_S: Final = 0.02
_SIZE: Final = Struct(">i")

Asked = Request | Callable[[int], Request]


def versions(request: type[Request], first: int = 0, last: int = 99) -> range:
    """The stable versions of a request, or those between two of them."""
    stable = request.spec.stable_versions
    return range(max(first, stable.first), min(last, stable.last) + 1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One case in one version: the question's fingerprint, and what came back as plain data."""

    label: str
    api: str
    version: int
    asked: int
    outcome: Any
    waited: bool | None = None


@dataclass(slots=True)
class Peer:
    """A broker that runs. `restart` and `stop` are clean; `data` is its log directory;
    `settling_s` after an answer the broker itself, too, knows what its controller has decided."""

    runtime: Runtime
    host: str
    port: int
    data: str
    cluster_id: str
    stop: Callable[[], Awaitable[None]]
    restart: Callable[[], Awaitable[None]]
    settling_s: float = 0.0

    def line(self) -> Line:
        """A connection."""
        return Line(self)


class Line:
    """One connection; requests may be on their way together."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._protocol = ClientConnection(CLIENT)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, request: Request, version: int, *, is_answered: bool = True) -> None:
        if self._writer is None:
            self._protocol = ClientConnection(CLIENT)
            self._reader, self._writer = await self._peer.runtime.network.open_streams(
                self._peer.host, self._peer.port
            )
        parts = self._protocol.send(request, version, expects_answer=is_answered)
        self._writer.write(b"".join(map(bytes, parts)))

    async def say(self, data: bytes) -> bytes | str:
        """Bytes on a connection of their own, and the frame that answers them."""
        network = self._peer.runtime.network
        reader, writer = await network.open_streams(self._peer.host, self._peer.port)
        writer.write(data)
        try:
            async with asyncio.timeout(PATIENCE_S):
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                return await reader.readexactly(size)
        except TimeoutError:
            return SILENCE
        except (asyncio.IncompleteReadError, ConnectionError):
            return CLOSED
        finally:
            writer.close()

    async def receive(self, patience_s: float = PATIENCE_S) -> Response | str:
        """The next answer; CLOSED or SILENCE ends the connection."""
        assert self._reader is not None
        try:
            async with asyncio.timeout(patience_s):
                (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
                frame = await self._reader.readexactly(size)
        except TimeoutError:
            self.close()
            return SILENCE
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            return CLOSED
        return self._protocol.receive(bytearray(frame)).response

    async def closed(self, patience_s: float) -> bool:
        """Does the broker close it? What it says before that is an AssertionError."""
        assert self._reader is not None
        try:
            async with asyncio.timeout(patience_s):
                said = await self._reader.read(1)
        except TimeoutError:
            return False
        assert not said, "an answer that nobody waits for"
        self.close()
        return True

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


@dataclass(slots=True)
class Talk:
    """The conversation that a scenario leads."""

    peer: Peer
    entries: list[Entry] = field(default_factory=list)
    symbols: Symbols = field(init=False)
    _line: Line = field(init=False)
    _aside: Line = field(init=False)
    _labels: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.symbols = Symbols(self.peer.runtime.clock.wall_ms)
        self.symbols.call_text(self.peer.data, "<data>")
        self.symbols.call_text(self.peer.cluster_id, "<cluster>")
        self._learn_address()
        self._line, self._aside = self.peer.line(), self.peer.line()

    def _learn_address(self) -> None:
        for host in (self.peer.host, "localhost"):
            self.symbols.call_text(host, "<host>")
        self.symbols.call("port", self.peer.port, "<port>")

    def close(self) -> None:
        self._line.close()
        self._aside.close()

    # Cases.

    async def ask(
        self,
        label: str,
        request: Asked,
        among: Iterable[int] | int | None = None,
        *,
        wait_ms: int | None = None,
    ) -> Any:
        """A case in each of those versions (one, or the newest); gives the last answer."""
        self._begin(label)
        answer: Response | str = SILENCE
        for version in _among(request, among):
            one = request(version) if callable(request) else request
            began = self.peer.runtime.clock.monotonic()
            await self._line.send(one, version)
            answer = await self._line.receive()
            self._enter(label, one, version, answer)
            if wait_ms is not None:
                self._judge_wait(began, wait_ms)
        return answer

    async def tell(self, label: str, request: Request, version: int, patience_s: float) -> None:
        """A case that is not answered (acks=0): does the broker close the connection?"""
        self._begin(label)
        await self._line.send(request, version, is_answered=False)
        outcome = CLOSED if await self._line.closed(patience_s) else SILENCE
        self._enter(label, request, version, outcome)

    async def send_frame(self, label: str, frame: bytes, key: int, version: int) -> None:
        """A case of bytes behind a frame's size; what comes back is an answer of that API."""
        self._begin(label)
        said = await Line(self.peer).say(len(frame).to_bytes(4, "big", signed=True) + frame)
        outcome: Any = said
        if isinstance(said, bytes):
            answer = response_class(key).decode(said[4:], version)
            outcome = plain(answer, version, self.symbols)
        self.entries.append(Entry(label, API[key].name, version, crc32(frame), outcome))

    async def ask_while(
        self,
        label: str,
        request: Request,
        version: int,
        meanwhile: Callable[[], Awaitable[object]],
        wait_ms: int,
    ) -> Any:
        """A case that waits at the broker until `meanwhile`, on another connection, ends it.

        Whether it `waited` says if the whole `wait_ms` had to pass."""
        self._begin(label)
        began = self.peer.runtime.clock.monotonic()
        await self._line.send(request, version)
        await meanwhile()
        answer = await self._line.receive(PATIENCE_S + wait_ms / 1000)
        self._enter(label, request, version, answer)
        self._judge_wait(began, wait_ms)
        return answer

    async def ask_until(
        self,
        label: str,
        request: Asked,
        version: int,
        reached: Callable[[Any], bool],
        *,
        wait_ms: int,
    ) -> Any:
        """A case that is asked again and again until its answer is `reached`, which is kept.

        Whether it `waited` says if that took `wait_ms` or longer: half of what is to be waited for
        shows what comes too soon. Well over twice as long is an AssertionError."""
        self._begin(label)
        began = self.peer.runtime.clock.monotonic()
        one = request(version) if callable(request) else request
        answer: Response | str = SILENCE

        async def is_reached() -> bool:
            nonlocal answer
            await self._line.send(one, version)
            answer = await self._line.receive()
            return not isinstance(answer, str) and reached(answer)

        try:
            await self.until(is_reached, PATIENCE_S + 2 * wait_ms / 1000)
        except TimeoutError:
            raise AssertionError(f"{label}: nothing came but {answer}") from None
        self._enter(label, one, version, answer)
        self._judge_wait(began, wait_ms)
        return answer

    def note(self, label: str, outcome: Any) -> None:
        """A case that is no request: what was found, as plain data."""
        self._begin(label)
        self.entries.append(Entry(label, "-", 0, 0, outcome))

    async def stop_and_read(self, label: str = "files") -> None:
        """A clean stop; then what the log directory holds is a case."""
        await self.stop()
        self.note(label, log_files.read(self.peer.runtime.files, self.peer.data, self.symbols))

    def files_of(self, partition: str) -> list[str]:
        """The names of a partition's files, while the broker runs."""
        return log_files.names_in(self.peer.runtime.files, self.peer.data, partition)

    def _begin(self, label: str) -> None:
        assert label not in self._labels, f"two cases have the label {label!r}"
        self._labels.add(label)

    def _enter(self, label: str, request: Request, version: int, answer: Response | str) -> None:
        key = type(request).spec.key
        assert key is not None
        asked = fingerprint(request, version, self.symbols)
        outcome = answer if isinstance(answer, str) else plain(answer, version, self.symbols)
        self.entries.append(Entry(label, API[key].name, version, asked, outcome))

    def _judge_wait(self, began: float, wait_ms: int) -> None:
        waited_ms = (self.peer.runtime.clock.monotonic() - began) * 1000
        last = self.entries.pop()
        waited = waited_ms >= wait_ms * 0.95
        self.entries.append(
            Entry(last.label, last.api, last.version, last.asked, last.outcome, waited)
        )

    # Preparations.

    async def send(self, request: Request, answer: type[R], version: int | None = None) -> R:
        """A request that is no case, on a connection beside."""
        last = type(request).spec.stable_versions.last if version is None else version
        await self._aside.send(request, last)
        response = await self._aside.receive()
        assert isinstance(response, answer), response
        return response

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """A topic that takes records when this returns (`segment_bytes="1"`: settings); its id."""
        request = CreateTopicsRequest(
            topics=[new_topic(name, partitions, **configs)], timeout_ms=30_000
        )
        (made,) = (await self.send(request, CreateTopicsResponse)).topics
        assert made.error_code == ErrorCode.NONE, (name, ErrorCode(made.error_code))
        self.symbols.call("id", bytes(made.topic_id), f"id of {name}")
        for index in range(partitions):
            await self.until(partial(self.is_led, name, index))
        return bytes(made.topic_id)

    async def delete(self, name: str) -> None:
        """The topic is gone, and the broker knows, when this returns."""
        state = DeleteTopicState(name=name, topic_id=ZERO_UUID)
        request = DeleteTopicsRequest(topics=[state], timeout_ms=30_000)
        (gone,) = (await self.send(request, DeleteTopicsResponse)).responses
        assert gone.error_code == ErrorCode.NONE, (name, ErrorCode(gone.error_code))

        async def is_gone() -> bool:
            return not await self.is_led(name)

        await self.until(is_gone)

    async def is_led(self, name: str, index: int = 0) -> bool:
        """Does the partition take records?"""
        answer = await self.send(list_offsets(-1, name, index=index), ListOffsetsResponse)
        return answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    async def alter_topic(self, name: str, **configs: str) -> None:
        """Other settings of a topic, in force when this returns."""
        answer = await self.send(new_settings(name, **configs), IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        await self.settled()

    async def write(self, name: str, *batches: bytes, index: int = 0) -> None:
        """Batches that are taken."""
        for each in batches:
            answer = await self.send(produce(name, each, index=index), ProduceResponse, 9)
            (outcome,) = answer.responses[0].partition_responses
            assert outcome.error_code == ErrorCode.NONE, ErrorCode(outcome.error_code)

    async def producer_id(self) -> int:
        """A fresh one."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        found: list[int] = []

        async def is_given() -> bool:
            answer = await self.send(request, InitProducerIdResponse)
            found.append(answer.producer_id)
            return answer.error_code == ErrorCode.NONE

        await self.until(is_given)
        return found[-1]

    async def until(
        self, reached: Callable[[], Awaitable[bool]], within_s: float = _SETTLED_S
    ) -> None:
        """Asks again and again; TimeoutError when it is not so in time."""
        async with asyncio.timeout(within_s):
            while not await reached():
                await self.pause(_POLL_S)

    async def pause(self, seconds: float) -> None:
        """Time passes: in a simulated world none of ours does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()

    async def pause_until(self, moment_s: float) -> None:
        """Until the broker's monotonic clock shows that; not at all if it is past."""
        await self.pause(max(0.0, moment_s - self.peer.runtime.clock.monotonic()))

    async def settled(self) -> None:
        """What was changed is known everywhere."""
        if self.peer.settling_s:
            await self.pause(self.peer.settling_s)

    async def restart(self) -> None:
        """A clean stop and a start of the broker on the same files."""
        self.close()
        await self.peer.restart()
        self._learn_address()

    async def stop(self) -> None:
        """A clean stop; the files are left as they are."""
        self.close()
        await self.peer.stop()


def _among(request: Asked, among: Iterable[int] | int | None) -> Iterable[int]:
    if isinstance(among, int):
        return [among]
    if among is None:
        assert isinstance(request, Request), "a request by version needs its versions"
        return [type(request).spec.stable_versions.last]
    return among
