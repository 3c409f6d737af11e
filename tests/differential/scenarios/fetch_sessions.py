"""Fetch sessions: what a broker remembers, tells again and forgets; who is told the wrong epoch."""

from __future__ import annotations

from typing import Any

from moldau.protocol.messages.delete_records import DeleteRecordsResponse
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest
from tests.broker.api.requests import delete_records, fetch, want
from tests.differential.requests import batch
from tests.differential.talk import Talk, versions

UNKNOWN_ID = b"\x07" * 16
WAIT_MS = 300


class Session:
    """A session that goes on: each request has the next epoch unless it says otherwise."""

    def __init__(self, talk: Talk, version: int = 12) -> None:
        self.talk = talk
        self.version = version
        self.id = 0
        self.epoch = 0

    async def ask(
        self,
        label: str,
        *wanted: tuple[str | bytes, FetchPartition],
        wait_ms: int = WAIT_MS,
        **more: Any,
    ) -> None:
        fields: dict[str, Any] = {"session_id": self.id, "session_epoch": self.epoch, **more}
        version = fields.pop("version", self.version)
        request = fetch(*wanted, wait_ms=wait_ms, **fields)
        answer = await self.talk.ask(f"{label}", request, version, wait_ms=wait_ms or None)
        if getattr(answer, "error_code", 1) == 0 and "session_epoch" not in more:
            self.id, self.epoch = answer.session_id or self.id, self.epoch + 1


async def scenario(talk: Talk) -> None:
    topic_id = await talk.topic("t", 3)
    await talk.topic("empty", 2)
    for index in range(3):
        await talk.write("t", batch(3), batch(3), index=index)
    await _incremental(talk)
    await _wrong_ones(talk)
    await _rotation(talk)
    await _by_id(talk, topic_id)
    await _gone(talk)


async def _incremental(talk: Talk) -> None:
    one = Session(talk)
    both = [("t", want(0)), ("t", want(1)), ("empty", want(0))]
    await one.ask("full", *both)
    await one.ask("nothing said anew: the data again")
    await one.ask("one has read on", ("t", want(0, 6)))
    await one.ask("both have read on", ("t", want(1, 6)))
    await one.ask("nothing is new")
    await talk.write("t", batch(2), index=1)
    await one.ask("something is new")
    await one.ask("it has been read", ("t", want(1, 8)))
    await one.ask("one comes, one goes", ("t", want(2, 3)), forget=(("t", [0]),))
    await one.ask("the one that came has read on", ("t", want(2, 6)))
    await one.ask("out of range", ("empty", want(0, 5)))
    await one.ask("out of range still")
    await one.ask("in range again", ("empty", want(0, 0)))
    await one.ask("an unknown topic comes", ("nope", want()))
    await one.ask("it is unknown still")
    await one.ask("an unknown partition comes", ("t", want(9)), forget=(("nope", [0]),))
    await one.ask("both kinds go", forget=(("t", [9]), ("nope", [0])))
    await talk.send(delete_records("t", 3, 1), DeleteRecordsResponse)
    await one.ask("the log begins later")
    await one.ask("that was told once")
    await one.ask("small limit", ("t", want(0, 0)), ("t", want(1, 3)), max_bytes=80)
    await one.ask("forget what is not there", forget=(("zz", [1]), ("t", [77])))
    await one.ask("forget and want at once", ("t", want(0, 6)), forget=(("t", [0]),))
    await one.ask("forget all", forget=(("t", [0, 1, 2]), ("empty", [0])))
    await one.ask("after all is forgotten")


async def _wrong_ones(talk: Talk) -> None:
    one = Session(talk)
    await one.ask("another full one", ("t", want(0)))
    await one.ask("an epoch too early", session_epoch=0 + 5)
    await one.ask("an epoch of before", session_epoch=1)
    await one.ask("an unknown session", session_id=one.id ^ 0x55AA55, session_epoch=1)
    await one.ask("by id in a session by name", version=13, session_epoch=2)
    await one.ask("a session that begins anew", ("t", want(1)), session_epoch=0)
    await one.ask("the one before is gone", session_epoch=3)
    await one.ask("an id without epoch", ("t", want()), session_id=5, session_epoch=0)
    for epoch in (5, -7, 2**31 - 1):
        await one.ask(f"no id, epoch {epoch}", ("t", want()), session_id=0, session_epoch=epoch)
    await one.ask("a full one of nothing", session_id=0, session_epoch=0)
    for version in versions(FetchRequest, 7, 12):
        other = Session(talk, version)
        await other.ask(f"full in version {version}", ("t", want(0)), wait_ms=0)
        await other.ask(f"on in version {version}", ("t", want(0, 6)), wait_ms=0)
        await other.ask(f"its end in version {version}", session_epoch=-1, wait_ms=0)
        await other.ask(f"after its end in version {version}", wait_ms=0)


async def _rotation(talk: Talk) -> None:
    """Under a limit, the partition that was answered goes to the end of the line."""
    one = Session(talk)
    three = [("t", want(index, 3)) for index in range(3)]
    await one.ask("three under a limit", *three, max_bytes=100)
    for turn in range(1, 6):
        await one.ask(f"three under a limit, turn {turn}", max_bytes=100)
    await one.ask("its end", session_epoch=-1, wait_ms=0)


async def _by_id(talk: Talk, topic_id: bytes) -> None:
    for version in versions(FetchRequest, 13):
        one = Session(talk, version)
        wanted = ((topic_id, want(0)), (UNKNOWN_ID, want(0)))
        await one.ask(f"by id, full, {version}", *wanted, wait_ms=0)
        await one.ask(f"by id, on, {version}", (topic_id, want(0, 6)), wait_ms=0)
        await one.ask(
            f"by id, without the unknown, {version}", forget=((UNKNOWN_ID, [0]),), wait_ms=0
        )
        await one.ask(f"by name in a session by id, {version}", version=12, session_epoch=3)
        await one.ask(f"by id, end, {version}", session_epoch=-1, wait_ms=0)


async def _gone(talk: Talk) -> None:
    """A session by id goes on when its topic is gone, and when another one has its name."""
    for version in versions(FetchRequest, 13):
        topic = f"gone-{version}"
        old_id = await talk.topic(topic, 2)
        one = Session(talk, version)
        wanted = [(old_id, want(0)), (old_id, want(1))]
        await one.ask(f"{topic}: full", *wanted, wait_ms=0)
        await talk.delete(topic)
        await one.ask(f"{topic}: it is gone", wait_ms=0)
        await one.ask(f"{topic}: it is wanted anew", *wanted, wait_ms=0)
        new_id = await talk.topic(topic)
        talk.symbols.call("id", new_id, f"id of {topic}, made again")
        await one.ask(f"{topic}: another one has its name", wait_ms=0)
        label = f"{topic}: both are wanted"
        await one.ask(label, (new_id, want(0)), forget=((old_id, [1]),), wait_ms=0)
        await one.ask(f"{topic}: the old one is forgotten", forget=((old_id, [0]),), wait_ms=0)
        await one.ask(f"{topic}: a full one", *wanted, session_epoch=0, wait_ms=0)
