"""ListOffsets where times are out of order, missing, or of the far future; after a cut, too."""

from __future__ import annotations

from moldau.records import encode_batch
from tests.broker.api.requests import delete_records, list_offsets
from tests.differential.requests import THEN
from tests.differential.talk import Talk

NO_TIME = -1
FUTURE = 4_000_000_000_000
SEGMENT_BYTES = 1 << 20
LARGE = SEGMENT_BYTES // 8
DISORDER = (50, 10, 90, 90, 5, 200, 1, 200, 199)
SPECIAL = (-1, -2, -3, -4)


def written(*times: int, size: int = 1) -> bytes:
    """One batch; a record for each time."""
    return bytes(encode_batch([(each, b"k", b"v" * size, ()) for each in times], 0))


async def scenario(talk: Talk) -> None:
    await _without_times(talk)
    await talk.topic("disorder", segment_bytes=str(SEGMENT_BYTES), index_interval_bytes="0")
    for each in DISORDER:
        first = THEN + each
        await talk.write("disorder", written(first + 3, first, first + 2, size=LARGE))
    await _searched(talk, "in disorder")
    await talk.ask("cut", delete_records("disorder", 10))
    await _searched(talk, "after the cut")
    await talk.restart()
    await talk.until(lambda: talk.is_led("disorder", 0))
    await _searched(talk, "after a restart")


async def _without_times(talk: Talk) -> None:
    for topic in ("untimed", "partly", "rolled", "future"):
        await talk.topic(
            topic, segment_bytes=str(SEGMENT_BYTES), message_timestamp_after_max_ms=str(2**63 - 1)
        )
    await talk.write("untimed", written(NO_TIME, NO_TIME), written(NO_TIME))
    await talk.write("partly", written(NO_TIME), written(NO_TIME, THEN, NO_TIME), written(NO_TIME))
    for back in range(4):
        await talk.write("rolled", written(NO_TIME, NO_TIME, size=2 * LARGE))
        await talk.write("future", written(FUTURE - back, size=2 * LARGE))
    for topic in ("untimed", "partly", "rolled", "future"):
        for at in (*SPECIAL, 0, THEN, THEN + 1, FUTURE - 2, FUTURE + 1):
            await talk.ask(f"{topic} at {at}", list_offsets(at, topic), 11)
    await talk.ask("cut of untimed", delete_records("untimed", 1))
    await talk.ask("untimed after a cut at -3", list_offsets(-3, "untimed"), 11)
    await talk.ask("all of untimed cut", delete_records("untimed", -1))
    await talk.ask("nothing left of untimed at -3", list_offsets(-3, "untimed"), 11)


async def _searched(talk: Talk, when: str) -> None:
    for after in (0, 1, 2, 5, 6, 10, 13, 50, 53, 54, 90, 93, 94, 199, 200, 202, 203, 204, 10**6):
        await talk.ask(f"{after} ms {when}", list_offsets(THEN + after, "disorder"), 11)
    for special in SPECIAL:
        await talk.ask(f"{special} {when}", list_offsets(special, "disorder"), 11)
