"""The data source `moldau` beside Spark's own `kafka` source, and the sink connector beside a job
written by hand, in rows a second.

Both sources run in one Spark session, on moldau's broker, one after the other. The jars of Spark's
source come from Maven. `BENCH_SCALE=0.1` makes every load a tenth as long, for a quick run.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.broker_load import create_topic, rdkafka_produce
from bench.consumer import AS_JAVA, SIZE_BYTES, scaled
from bench.harness import Case, Goal, Table
from bench.peer_brokers import PARTITIONS, BrokerProcess, MoldauBroker
from moldau.connectors.spark.messages import START, STOP
from moldau.connectors.spark.process import Pipes, RunnerProcess
from moldau.spark.session import new_session
from tests.peers.spark_kafka import stock_jars

ROWS: Final = 5_000_000
SUNK: Final = 2_000_000

STOCK: Final = "kafka"
OURS: Final = "moldau"
BY_HAND: Final = "by hand"
CONNECTOR: Final = "SparkSinkConnector"
CONF: Final[Mapping[str, str]] = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
MASTER: Final = "local[2]"
SCHEMA: Final = "id BIGINT, amount DOUBLE, note STRING"
VALUE: Final = b'{"id": 1234567, "amount": 1234.5, "note": "%s"}' % (b"x" * 53)
NOTES: Final = (f"{PARTITIONS} partitions, master {MASTER}; broker and Spark on the same cores.",)
_TIMEOUT_S: Final = 300


@cache
def broker() -> BrokerProcess:
    """Return our broker with a topic of bytes and one of JSON, made when the first case runs."""
    with ExitStack() as stack:
        found = stack.enter_context(MoldauBroker.started())
        for topic, count, value in (("read", ROWS, bytes(SIZE_BYTES)), ("json", SUNK, VALUE)):
            create_topic(found, topic, PARTITIONS)
            whole = scaled(count) // PARTITIONS * PARTITIONS
            rdkafka_produce(found, topic, whole, value, AS_JAVA)
        atexit.register(stack.pop_all().close)
    return found


@cache
def session() -> Any:
    jars = ",".join(map(str, stock_jars()))
    found = new_session("bench", master=MASTER, conf={**CONF, "spark.jars": jars})
    atexit.register(found.stop)
    return found


def address() -> dict[str, str]:
    return {"kafka.bootstrap.servers": f"127.0.0.1:{broker().port}"}


def timed(work: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def read(kind: str) -> float:
    """Return the rows a second of a batch of all records, which is thrown away."""
    rows = session().read.format(kind).options(**address(), subscribe="read").load()
    return timed(rows.write.format("noop").mode("overwrite").save, scaled(ROWS))


def stream(kind: str) -> float:
    """Return the same of a stream, in micro-batches of a fifth."""
    given = {"subscribe": "read", "startingOffsets": "earliest"}
    given["maxOffsetsPerTrigger"] = str(scaled(ROWS) // 5)
    rows = session().readStream.format(kind).options(**address(), **given).load()
    with TemporaryDirectory(prefix="moldau-bench-") as folder:
        writer = rows.writeStream.format("noop").option("checkpointLocation", folder)
        return timed(
            lambda: writer.trigger(availableNow=True).start().awaitTermination(), scaled(ROWS)
        )


def write(kind: str) -> float:
    """Return the rows a second that Spark makes, with keys, and writes into a new topic."""
    topic = f"write-{time.monotonic_ns()}"
    create_topic(broker(), topic, PARTITIONS)
    count = scaled(ROWS) // 2
    rows = session().range(count).selectExpr(
        "CAST(id AS STRING) AS key", f"rpad(CAST(id AS STRING), {SIZE_BYTES}, 'x') AS value"
    )  # fmt: skip
    return timed(
        lambda: rows.write.format(kind).options(**address(), topic=topic).mode("append").save(),
        count,
    )


def by_hand() -> float:
    """Run a job without the connector, as a separate program: like the connector's runner it has a
    new session, so both are measured from the begin of the query to its end, with a Java that has
    just started."""
    jars = ",".join(map(str, stock_jars()))
    facts = {**CONF, "spark.jars": jars}
    words = [address()["kafka.bootstrap.servers"], "json", SCHEMA, MASTER, json.dumps(facts)]
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "bench.spark_by_hand", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return scaled(SUNK) / float(done.stdout.split()[-1])


def connector() -> float:
    """Run the connector with a config, measured from the begin of the query to its end."""
    with TemporaryDirectory(prefix="moldau-bench-") as folder:
        return _sunk(Path(folder))


def _sunk(folder: Path) -> float:
    config = {
        "topics": "json",
        "value.format": "json",
        "value.schema": SCHEMA,
        "sink.format": "parquet",
        "sink.path": str(folder / "rows"),
        "trigger": "available-now",
        "checkpoint.location": str(folder / "checkpoint"),
        "spark.master": MASTER,
        **{name.replace("spark.", "spark.conf.", 1): text for name, text in CONF.items()},
    }
    runner = RunnerProcess(Pipes())
    clients = {"bootstrap.servers": f"127.0.0.1:{broker().port}"}
    runner.send({"type": START, "name": "bench", "config": config, "clients": clients})
    try:
        _until(runner, "session")
        return timed(lambda: _until(runner, "finished"), scaled(SUNK))
    finally:
        runner.send({"type": STOP})
        runner.end(60)


def _until(runner: RunnerProcess, kind: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        found = runner.take(1.0)
        if found is not None and found["type"] == kind:
            return
        if found is not None and found["type"] in ("failed", "end"):
            raise RuntimeError(f"the runner failed: {found.get('cause')}")
    raise TimeoutError(f"no {kind} in {_TIMEOUT_S} s")


def _both(work: Callable[[str], float]) -> list[Case]:
    return [Case(kind, partial(work, kind)) for kind in (STOCK, OURS)]


def tables() -> Iterator[Table]:
    unit = f"rows of {SIZE_BYTES} B a second"
    for title, run, least in (
        ("Read a batch into noop", read, 4.0),
        ("Read a stream into noop", stream, 1.8),
        ("Write a batch", write, 1.8),
    ):
        goals = [Goal(OURS, STOCK, ratio_at_least=least)]
        yield Table(title, unit, _both(run), goals, notes=NOTES)
    yield Table(
        "Topic to Parquet",
        "rows of JSON a second",
        [Case(BY_HAND, by_hand), Case(CONNECTOR, connector)],
        [Goal(CONNECTOR, BY_HAND, ratio_at_least=0.7)],
        notes=(*NOTES, "Each in a fresh session, from the begin of the query to its end."),
    )
