"""A Streams app on Spark beside the same app in this process's engine, and beside programs that one
writes by hand for Spark, in records a second.

All read the JSON records of `bench.streams` from one partition of our broker and write their
results back to it. The embedded engine is one worker. Spark is `local[2]`; a topic of one partition
has one task at a time, so each has one core for its tasks. The last table has a topic of two
partitions too, with a task at a time on each core. Broker and Java share the machine. Apps write
exactly once.

Spark is measured in a session that has run the same app or query on a tenth of the load. The time
is that from its start on the rest to its end; a query by hand has about a second of Spark's own in
it. The embedded engine is measured between two marked records, as in `bench.streams`.

By hand: the stateless program is one of DataFrame columns, which run in Java without Python; the
windowed count is a `transformWithStateInPandas` with a map of minutes for each user.

`BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import importlib
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count
from typing import Any, Final

from bench import stream_apps
from bench.harness import Case, Goal, Table
from bench.streams import EXACT, JOIN_KEYS, RECORDS_ELSE, SCALE, START_MS, arena, order, throughput
from moldau.client.sync import Producer
from moldau.spark.session import new_session

EMBEDDED: Final = "embedded"
ON_SPARK: Final = "on Spark"
BY_HAND: Final = "Spark by hand"
ONE: Final = "on Spark, one core"
TWO: Final = "on Spark, two cores"
KINDS: Final = ("stateless", "windowed")
SCHEMA: Final = "user STRING, amount DOUBLE, kind STRING, country STRING, item LONG, note STRING"
RECORDS: Final = round(RECORDS_ELSE * SCALE)
_CHUNK: Final = 10_000
_MINUTE_MS: Final = 60_000
_GRACE_MS: Final = 5_000
_runs = count()


@cache
def session() -> Any:
    found = new_session(
        "bench",
        master="local[2]",
        conf={
            "spark.driver.memory": "2g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
        },
    )
    atexit.register(found.stop)
    return found


def fill(topic: str, first: int, records: int) -> None:
    """Write records, each a millisecond after the one before it."""
    chance = random.Random(first)
    with Producer(bootstrap_servers=arena().bootstrap) as producer:
        for start in range(first, first + records, _CHUNK):
            size = min(_CHUNK, first + records - start)
            users = [f"user-{chance.randrange(JOIN_KEYS):07}" for _ in range(size)]
            producer.send_many(
                topic,
                [order(user, start + index, chance) for index, user in enumerate(users)],
                keys=[user.encode() for user in users],
                timestamps_ms=[START_MS + start + index for index in range(size)],
            )
            producer.flush()


def measured(
    make: Callable[[str, str, str, str], Callable[[], None]], kind: str, partitions: int = 1
) -> float:
    """Return the records a second of a run on all that is in a topic. `make` gets the kind, a name,
    the topics, and returns the run; the checkpoint stays between two runs."""
    name = f"{kind}-spark-{next(_runs)}"
    topic, out = arena().topic(name, partitions), arena().topic(f"{name}-out")
    run = make(kind, name, topic, out)
    warm_up = RECORDS // 10
    fill(topic, 0, warm_up)
    run()
    fill(topic, warm_up, RECORDS)
    begin = time.perf_counter()
    run()
    elapsed = time.perf_counter() - begin
    for each in (topic, out):
        arena().admin.delete_topic(each)
    shutil.rmtree(arena().folder / name, ignore_errors=True)
    return RECORDS / elapsed


def on_spark(kind: str, name: str, topic: str, out: str) -> Callable[[], None]:
    """Return the run of our app."""
    os.environ |= {"BENCH_APP": name, "BENCH_IN": topic, "BENCH_OTHER": topic, "BENCH_OUT": out}
    os.environ["BENCH_PROCESSING"] = "exactly_once"
    app = getattr(importlib.reload(stream_apps), kind)

    def run() -> None:
        checkpoint = str(arena().folder / name)
        given = app.on_spark(session(), checkpoint=checkpoint, bootstrap=arena().bootstrap)
        with given as running:
            running.process_available()

    return run


def by_hand(kind: str, name: str, topic: str, out: str) -> Callable[[], None]:
    """Return the run of the program that one writes for Spark."""
    from pyspark.sql.functions import col, from_json, unix_millis

    address = {"kafka.bootstrap.servers": arena().bootstrap}

    def run() -> None:
        given = {"subscribe": topic, "startingOffsets": "earliest", **address}
        rows = session().readStream.format("moldau").options(**given).load()
        parsed = from_json(col("value").cast("string"), SCHEMA)
        orders = rows.select(parsed.alias("row"), unix_millis("timestamp").alias("time"))
        found = (_stateless if kind == "stateless" else _windowed)(orders.select("row.*", "time"))
        writer = found.writeStream.format("moldau").options(**address).option("topic", out)
        writer = writer.option("checkpointLocation", str(arena().folder / name))
        writer.trigger(availableNow=True).start().awaitTermination()

    return run


def _stateless(orders: Any) -> Any:
    from pyspark.sql.functions import col, struct, to_json, upper

    found = orders.filter(col("amount") > 0).filter(col("kind") != "bot")
    row = struct("user", (col("amount") * 1.19).alias("amount"), upper("country").alias("country"))
    return found.select(col("user").alias("key"), to_json(row).alias("value"))


def _windowed(orders: Any) -> Any:
    return (
        orders.groupBy("user")
        .transformWithStateInPandas(_minutes(), "key STRING, value STRING", "append", "none")
        .select("key", "value")
    )


def _minutes() -> Any:
    """Return a processor that counts the records of a user in each minute."""
    from pyspark.sql.streaming import StatefulProcessor

    pd: Any = importlib.import_module("pandas")

    class Minutes(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.counts = handle.getMapState("counts", "minute LONG", "n LONG")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            (user,) = key
            times = pd.concat([each["time"] for each in rows])
            newest = int(times.max())
            for minute, found in (times // _MINUTE_MS).value_counts().items():
                number = int(found)
                if self.counts.containsKey((minute,)):
                    number += self.counts.getValue((minute,))[0]
                self.counts.updateValue((minute,), (number,))
                yield pd.DataFrame({"key": [user], "value": [str(number)]})
            for (minute,) in list(self.counts.keys()):
                if (minute + 1) * _MINUTE_MS + _GRACE_MS < newest:
                    self.counts.removeKey((minute,))

        def close(self) -> None:
            pass

    return Minutes()


def tables() -> Iterator[Table]:
    """Measure a stateless app and a windowed count."""
    least = {"stateless": 0.5, "windowed": 0.35}
    for kind in KINDS:
        goals = [Goal(ON_SPARK, EMBEDDED, ratio_at_least=least[kind])]
        if kind == "windowed":
            goals.append(Goal(ON_SPARK, BY_HAND, ratio_at_least=1.0))
        cases = [
            Case(EMBEDDED, partial(throughput, EXACT, kind, JOIN_KEYS)),
            Case(ON_SPARK, partial(measured, on_spark, kind)),
            Case(BY_HAND, partial(measured, by_hand, kind)),
        ]
        yield Table(f"{kind}, {JOIN_KEYS} keys", "records/s", cases, goals)
    cases = [
        Case(ONE, partial(measured, on_spark, "windowed", 1)),
        Case(TWO, partial(measured, on_spark, "windowed", 2)),
    ]
    goals = [Goal(TWO, ONE, ratio_at_least=1.7)]
    yield Table(f"windowed, {JOIN_KEYS} keys, two partitions", "records/s", cases, goals)
