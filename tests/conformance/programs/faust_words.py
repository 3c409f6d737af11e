"""A Faust app as its documentation writes one: words counted in a table and in a windowed table.

    python faust_words.py worker --without-web

BROKER, NAME and DATA come from the environment. Each count that changes goes to NAME-counts: the
count of all time as it is now, and that of the window that the line belongs to.
"""

from __future__ import annotations

import os
from typing import Any

import faust

NAME = os.environ["NAME"]

app = faust.App(
    NAME,
    broker=f"kafka://{os.environ['BROKER']}",
    datadir=os.environ["DATA"],
    store="rocksdb://?driver=rocksdict",
    topic_partitions=2,
    topic_replication_factor=1,
    stream_wait_empty=False,
    broker_commit_interval=0.5,
)
lines = app.topic(f"{NAME}-lines", value_type=str, value_serializer="raw")
words = app.topic(f"{NAME}-words", key_type=str, value_type=str)
counted = app.topic(f"{NAME}-counts", key_type=str, value_type=str, value_serializer="raw")
counts = app.Table("counts", default=int)
minutes = app.Table("minutes", default=int).tumbling(60.0, expires=3600.0)


@app.agent(lines)  # type: ignore[untyped-decorator]
async def split(stream: Any) -> None:
    async for event in stream.events():
        for word in event.value.split():
            await words.send(key=word, value=word, timestamp=event.message.timestamp)


@app.agent(words)  # type: ignore[untyped-decorator]
async def count(stream: Any) -> None:
    async for word in stream:
        counts[word] += 1
        minutes[word] += 1
        await counted.send(key=word, value=f"{counts[word]} {minutes[word].current()}")


if __name__ == "__main__":
    app.main()
