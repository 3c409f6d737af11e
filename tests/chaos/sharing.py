"""`python -m tests.chaos.sharing SERVERS TOPIC GROUP COUNT PATH`: so many share consumers, each
with a diary `PATH-NUMBER.diary`. They accept what they get until standard input ends.

A diary has lines of offsets: `got OFFSET:DELIVERY ...`, `said OFFSET ...` before they are accepted,
and `done OFFSET ...` when that is stored. One that is killed leaves the lines that it has written.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from moldau.client import KafkaError, Message, ShareConsumer
from moldau.runtime import Runtime
from moldau.runtime.real import run

POLL_S = 0.5


async def main(runtime: Runtime, words: Sequence[str]) -> None:
    servers, topic, group, count, path = words
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    works = (
        _work(runtime, ended, Path(f"{path}-{number}.diary"), (servers, topic, group))
        for number in range(int(count))
    )
    await asyncio.gather(*works)


async def _work(
    runtime: Runtime, ended: asyncio.Future[str], path: Path, where: tuple[str, str, str]
) -> None:
    servers, topic, group = where
    with path.open("a") as diary:
        async with ShareConsumer(
            topic,
            group=group,
            runtime=runtime,
            bootstrap_servers=servers,
            share_acknowledgement_mode="explicit",
        ) as queue:
            while not ended.done():
                found = await queue.poll(POLL_S)
                if found:
                    await _accept(queue, found, diary)


async def _accept(
    queue: ShareConsumer[Any, Any], found: list[Message[Any, Any]], diary: TextIO
) -> None:
    _write(diary, "got", (f"{each.offset}:{each.delivery_count}" for each in found))
    _write(diary, "said", (f"{each.offset}" for each in found))
    sent = [f"{each.offset}" for each in found if each.ack()]
    try:
        failures = await queue.commit()
    except KafkaError as error:
        sys.stderr.write(f"{error}\n")
        return
    if not failures and sent:
        _write(diary, "done", sent)


def _write(diary: TextIO, word: str, what: Iterable[str]) -> None:
    diary.write(" ".join((word, *what)) + "\n")
    diary.flush()


if __name__ == "__main__":
    run(partial(main, words=sys.argv[1:]))
