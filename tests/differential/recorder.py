"""Records what a client and Apache Kafka say to each other: a proxy between the two.

Kafka advertises the proxy's address, so that the client never leaves it. A recording holds the
requests as the bytes that were sent, over all connections in the order in which they came, each
with its answer (without Kafka's wording) or none where the client asked for none. What a client did
not wait for is left out.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.protocol.connection import Arrival, ClientConnection, InFlight, ServerConnection
from moldau.protocol.declare import Response
from moldau.protocol.messages import API, request_class
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.broker.api.conversation import without_wording
from tests.differential.group_requests import coordinated
from tests.differential.peers import kafka_peer
from tests.differential.talk import Talk
from tests.peers.kafka_broker import HOST, KafkaBroker

FOLDER: Final = Path(__file__).with_name("recorded")
_NO_ACKS: Final = 0
_PRODUCE: Final = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request frame on a connection, when it came, and the body of the answer; None: none was
    asked for."""

    after_ms: int
    connection: int
    request: bytes
    answer: bytes | None


@dataclass(slots=True)
class Recording:
    """What one client said, and what has to be known to read it."""

    began_ms: int
    port: int
    cluster_id: str
    data: str
    exchanges: list[Exchange] = field(default_factory=list)

    def write(self, name: str) -> None:
        FOLDER.mkdir(exist_ok=True)
        facts = asdict(self)
        facts["exchanges"] = [
            (
                each.after_ms,
                each.connection,
                _text(each.request),
                None if each.answer is None else _text(each.answer),
            )
            for each in self.exchanges
        ]
        exchanges = facts.pop("exchanges")
        lines = "".join(f"{json.dumps(each)}\n" for each in (facts, *exchanges))
        path_of(name).write_text(lines, encoding="ascii")


def read(name: str) -> Recording:
    first, *lines = map(json.loads, path_of(name).read_text(encoding="ascii").splitlines())
    exchanges = [
        Exchange(
            after_ms, connection, b64decode(request), None if answer is None else b64decode(answer)
        )
        for after_ms, connection, request, answer in lines
    ]
    return Recording(**first, exchanges=exchanges)


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def opened(frame: bytes) -> Arrival:
    """The request in a frame, of any API and version."""
    served = {key: request_class(key).spec.versions for key in API}
    return ServerConnection({key: Versions(*each) for key, each in served.items()}).receive(
        memoryview(frame)
    )


def decoded_answer(key: int, version: int, frame: bytes) -> Response:
    """The answer in a frame that has its header still."""
    client = ClientConnection(None)
    client.in_flight.append(InFlight(int.from_bytes(frame[:4], "big"), key, version, None))
    return client.receive(memoryview(frame)).response


class _Heard:
    """One connection's requests that wait for their answers, by correlation id."""

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}


class Proxy:
    """Passes frames on, both ways, and keeps them."""

    def __init__(self, runtime: Runtime, kafka_port: int) -> None:
        self._runtime = runtime
        self._kafka_port = kafka_port
        self._began = runtime.clock.monotonic()
        self._frames: list[tuple[int, int, bytes, bytes | None]] = []
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number, heard = self._connections, _Heard()
        kafka_reader, kafka_writer = await self._runtime.network.open_streams(
            HOST, self._kafka_port
        )
        asked = self._pass_on(reader, kafka_writer, lambda frame: self._ask(number, heard, frame))
        told = self._pass_on(kafka_reader, writer, lambda frame: self._tell(heard, frame))
        with suppress(asyncio.CancelledError):  # the recording is over
            await asyncio.gather(asked, told)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        keep: Callable[[bytes], None],
    ) -> None:
        try:
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size, "big"))
                keep(frame)
                writer.write(size + frame)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _ask(self, connection: int, heard: _Heard, frame: bytes) -> None:
        heard.waiting[int.from_bytes(frame[4:8], "big")] = len(self._frames)
        after_ms = round((self._runtime.clock.monotonic() - self._began) * 1000)
        self._frames.append((after_ms, connection, frame, None))

    def _tell(self, heard: _Heard, frame: bytes) -> None:
        at = heard.waiting.pop(int.from_bytes(frame[:4], "big"))
        self._frames[at] = (*self._frames[at][:3], frame)

    def exchanges(self) -> list[Exchange]:
        """What was said to its end."""
        return [each for frames in self._frames if (each := _exchange(*frames)) is not None]


def _exchange(
    after_ms: int, connection: int, request: bytes, frame: bytes | None
) -> Exchange | None:
    arrival = opened(request)
    if frame is not None:
        answer = decoded_answer(arrival.key, arrival.version, frame)
        body = bytes(without_wording(answer).encode(arrival.version))
        return Exchange(after_ms, connection, request, body)
    asked: Any = arrival.decode()
    wants_none = arrival.key == _PRODUCE and asked.acks == _NO_ACKS
    return Exchange(after_ms, connection, request, None) if wants_none else None


def record(broker: KafkaBroker, proxy_port: int, client: Callable[[str], object]) -> Recording:
    """What `client(bootstrap)`, in a thread of its own, says to a Kafka that advertises the port.

    The broker has a block of producer ids and coordinators before: the first to ask for them may be
    told to come again."""

    async def main(runtime: Runtime) -> Recording:
        talk = Talk(kafka_peer(runtime, broker))
        await talk.producer_id()
        await coordinated(talk)
        talk.close()
        proxy = Proxy(runtime, broker.port)
        began_ms = runtime.clock.wall_ms()
        async with await runtime.network.serve_streams(proxy.serve, HOST, proxy_port):
            await asyncio.to_thread(client, f"{HOST}:{proxy_port}")
        data = str(broker.data)
        return Recording(began_ms, proxy_port, broker.cluster_id, data, proxy.exchanges())

    return run(main, loop="asyncio")
