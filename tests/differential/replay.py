"""What was recorded of a client, said again to our broker.

The bytes are those that the client sent. Only ids that chance gave (of the cluster, of topics, of
fetch sessions) are put in place of those that Kafka gave; then the request is encoded anew. APIs
that we do not serve are passed over: the client would not have asked us.

Our clock begins when the recording did, as records carry the client's times; and each request
waits for its time, as a client waits before it tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from moldau.broker.api.service import served_versions
from moldau.protocol.declare import Request, Response, Struct
from moldau.protocol.messages import API, response_class
from tests.differential import recorder
from tests.differential.group_requests import coordinated
from tests.differential.peers import SIMULATED, talk_to_ours
from tests.differential.plain import Symbols, plain
from tests.differential.recorder import Exchange, Recording
from tests.differential.talk import SILENCE, Entry, Peer, Talk

_PATIENCE_S: Final = 40.0


def recordings() -> list[str]:
    """The names of all that were recorded."""
    return sorted(path.stem for path in recorder.FOLDER.glob("*.jsonl"))


@dataclass(frozen=True, slots=True)
class Replayed:
    """Both sides of a recording, as transcripts."""

    kafka: list[Entry]
    ours: list[Entry]
    passed_over: list[str]


class Replay:
    """One recording, as a scenario."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._given: dict[Any, Any] = {}
        self.result = Replayed([], [], [])

    async def __call__(self, talk: Talk) -> None:
        theirs = Symbols(lambda: self._recording.began_ms)
        theirs.call_text(self._recording.data, "<data>")
        theirs.call_text(self._recording.cluster_id, "<cluster>")
        theirs.call_text("127.0.0.1", "<host>")
        theirs.call("port", self._recording.port, "<port>")
        served = served_versions()
        self._given["cluster_id", self._recording.cluster_id] = talk.peer.cluster_id
        await talk.producer_id()  # as before the recording
        await coordinated(talk)
        began_s = talk.peer.runtime.clock.monotonic()
        try:
            for number, exchange in enumerate(self._recording.exchanges):
                arrival = recorder.opened(exchange.request)
                name = API[arrival.key].name
                if arrival.key not in served:
                    self.result.passed_over.append(name)
                    continue
                await talk.pause_until(began_s + exchange.after_ms / 1000)
                answer = await self._answer(talk.peer, exchange)
                kept = exchange.answer
                known = None
                if kept is not None:
                    known = response_class(arrival.key).decode(kept, arrival.version)
                    self._learn(known, answer, theirs, talk.symbols)
                label = f"{number} {name}"
                sides = (
                    (self.result.kafka, known, theirs),
                    (self.result.ours, answer, talk.symbols),
                )
                for entries, said, symbols in sides:
                    outcome = SILENCE if said is None else plain(said, arrival.version, symbols)
                    entries.append(Entry(label, name, arrival.version, 0, outcome))
        finally:
            for _, writer in self._streams.values():
                writer.close()

    async def _answer(self, peer: Peer, exchange: Exchange) -> Response | None:
        if exchange.connection not in self._streams:
            streams = await peer.runtime.network.open_streams(peer.host, peer.port)
            self._streams[exchange.connection] = streams
        reader, writer = self._streams[exchange.connection]
        frame = self._translated(exchange.request)
        writer.write(len(frame).to_bytes(4, "big") + frame)
        if exchange.answer is None:
            return None
        arrival = recorder.opened(frame)
        async with asyncio.timeout(_PATIENCE_S):
            size = int.from_bytes(await reader.readexactly(4), "big")
            return recorder.decoded_answer(
                arrival.key, arrival.version, await reader.readexactly(size)
            )

    def _translated(self, frame: bytes) -> bytes:
        """The request with our ids for Kafka's; its own bytes where there are none."""
        arrival = recorder.opened(frame)
        request = arrival.decode()
        body = bytes(arrival.body)
        if not self._replace(request):
            return frame
        return frame[: len(frame) - len(body)] + bytes(request.encode(arrival.version))

    def _replace(self, value: Any) -> bool:
        """Puts our ids in; was there any?"""
        found = False
        for field in type(value).spec.fields:
            inside = getattr(value, field.name)
            key = (field.name, inside) if isinstance(inside, int | bytes | str) else None
            if key in self._given:
                setattr(value, field.name, self._given[key])
                found = True
            for each in inside if isinstance(inside, list) else [inside]:
                if isinstance(each, Struct):
                    found |= self._replace(each)
        return found

    def _learn(self, theirs: Response, ours: Any, kafka: Symbols, own: Symbols) -> None:
        """Which id of ours stands for which of Kafka's."""
        ids = dict(_topic_ids(ours))
        for name, topic_id in _topic_ids(theirs):
            kafka.call("id", topic_id, f"id of {name}")
            if name in ids:
                own.call("id", ids[name], f"id of {name}")
                self._given["topic_id", topic_id] = ids[name]
        session_id = getattr(theirs, "session_id", 0)
        if session_id:
            self._given["session_id", session_id] = ours.session_id


def _topic_ids(value: Request | Response | Struct) -> Iterator[tuple[str, bytes]]:
    names = {field.name for field in type(value).spec.fields}
    if {"name", "topic_id"} <= names:
        holder: Any = value
        if holder.name and any(holder.topic_id):
            yield holder.name, bytes(holder.topic_id)
    for name in names:
        inside = getattr(value, name)
        for each in inside if isinstance(inside, list) else ():
            if isinstance(each, Struct):
                yield from _topic_ids(each)


def replay(name: str, arena: str = SIMULATED) -> Replayed:
    """Both sides of that recording."""
    recording = recorder.read(name)
    scenario = Replay(recording)
    began_ms = recording.began_ms if arena == SIMULATED else None
    talk_to_ours(scenario, {}, arena, began_ms)
    return scenario.result
