"""What ten everyday actions go through: calls of the house's own functions, and its rooms.

Client and broker run in one process, on one event loop, so that one profile sees both. Calls of
libraries and of the standard library do not count. A walk is taken several times after a first one
that is not counted, and the fewest calls are shown: whatever else runs meanwhile only adds.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

from moldau.client import (
    Admin,
    Consumer,
    NewTopic,
    Producer,
    Resource,
    ResourceType,
    ShareConsumer,
)
from moldau.connect.api import Schema, SinkRecord, Struct
from moldau.connect.data import INT64, STRING
from moldau.streams import Streams
from moldau.testing import EmbeddedBroker
from tests.connectors.contexts import SinkContext, VirtualPace
from tests.console.shown import browser
from tests.registry.served import USER, in_memory

Walk: TypeAlias = Callable[[], Awaitable[object]]

ROUNDS: Final = 20
BATCH: Final = 100
_OURS: Final = "moldau."
_HAVE_ROOMS: Final = ("client", "broker", "streams", "connect", "connectors")
_LOGIN: Final = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="ann" password="-" user_ann="-";'
    ),
}
"""A broker that takes logins by PLAIN alone."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One walk: calls by module, and the modules in the order in which they were first called."""

    calls: Counter[str]

    @property
    def count(self) -> int:
        return self.calls.total()

    @property
    def rooms(self) -> list[str]:
        """The rooms in their order: layers, and in those that have rooms these."""
        return list(dict.fromkeys(_room(each) for each in self.calls))


def _room(module: str) -> str:
    layer, room = (*module.split("."), "")[1:3]
    return f"{layer}/{room}" if layer in _HAVE_ROOMS else layer


class Profile:
    """Counts the calls of all threads by module, while it has a counter."""

    def __init__(self) -> None:
        self._calls: Counter[str] | None = None

    def install(self) -> None:
        """Count in this thread and in all that start from now on."""
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        self._calls = calls = Counter[str]()
        try:
            yield calls
        finally:
            self._calls = None

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and self._calls is not None:
            module = frame.f_globals.get("__name__", "")
            if module.startswith(_OURS):
                self._calls[module] += 1


PROFILE: Final = Profile()


async def fewest(walk: Walk, prepare: Walk | None = None) -> Trace:
    """Take the walk, each time after `prepare`, and return the trace with the fewest calls."""
    found: list[Trace] = []
    for _ in range(ROUNDS + 1):
        if prepare is not None:
            await prepare()
        with PROFILE.counting() as calls:
            await walk()
        found.append(Trace(calls))
    return min(found[1:], key=lambda each: each.count)


class Cluster:
    """A broker on this event loop, and clients that end with it."""

    def __init__(self, broker: EmbeddedBroker, stack: AsyncExitStack) -> None:
        self._broker = broker
        self._stack = stack
        self.servers = broker.bootstrap_servers

    async def producer(self) -> Producer[Any, Any]:
        return await self._stack.enter_async_context(Producer(bootstrap_servers=self.servers))

    async def consumer(self, topic: str, group: str | None = None) -> Consumer[Any, Any]:
        reader: Consumer[Any, Any] = Consumer(
            bootstrap_servers=self.servers, group_id=group, enable_auto_commit=False
        )
        await self._stack.enter_async_context(reader)
        reader.assign([(topic, 0)])
        await reader.seek_to_beginning()
        return reader

    async def topic(self, name: str) -> str:
        async with Admin(bootstrap_servers=self.servers) as admin:
            await admin.create_topic(NewTopic(name, 1))
        return name


async def of_produce(cluster: Cluster) -> Trace:
    topic, producer = await cluster.topic("produced"), await cluster.producer()
    return await fewest(lambda: producer.send_and_wait(topic, b"value", key=b"key"))


async def of_hit(cluster: Cluster) -> Trace:
    """A poll that waits for a record which is sent meanwhile."""
    topic, producer = await cluster.topic("polled"), await cluster.producer()
    reader = await cluster.consumer(topic)

    async def prepare() -> None:
        for _ in range(BATCH):
            await producer.send(topic, b"value")
        await producer.flush()
        await asyncio.sleep(0.05)  # the fetch ahead brings them

    async def drained() -> None:
        assert await reader.poll(1.0)

    return await fewest(drained, prepare)


async def of_miss(cluster: Cluster) -> Trace:
    reader = await cluster.consumer(await cluster.topic("empty"))
    await reader.poll(0.1)
    return await fewest(lambda: reader.poll())


async def of_commit(cluster: Cluster) -> Trace:
    topic = await cluster.topic("committed")
    reader = await cluster.consumer(topic, "walkers")
    return await fewest(lambda: reader.commit({(topic, 0): 1}))


async def of_share(cluster: Cluster) -> Trace:
    """Ten records: polled, accepted one by one, and committed."""
    topic, producer = await cluster.topic("shared"), await cluster.producer()
    async with Admin(bootstrap_servers=cluster.servers) as admin:
        await admin.alter_configs(
            Resource(ResourceType.GROUP, "sharers"),
            set_to={"share.auto.offset.reset": "earliest"},
        )
    async with ShareConsumer(
        topic, bootstrap_servers=cluster.servers, group_id="sharers"
    ) as reader:

        async def prepare() -> None:
            for _ in range(10):
                await producer.send(topic, b"value")
            await producer.flush()

        async def taken() -> None:
            left = 10
            while left:
                for each in await reader.poll(1.0):
                    each.ack()
                    left -= 1
            await reader.commit()

        return await fewest(taken, prepare)


async def of_login(cluster: Cluster) -> Trace:
    """A client that connects, logs in by PLAIN, asks for the cluster, and closes."""
    async with EmbeddedBroker(_LOGIN) as broker:

        async def login() -> None:
            async with Admin(
                bootstrap_servers=broker.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_username="ann",
                sasl_password="-",  # noqa: S106
            ) as admin:
                await admin.describe_cluster()

        return await fewest(login)


async def of_join(cluster: Cluster) -> Trace:
    """A record of a stream that is joined with a table, and the commit of what came of it."""
    app = Streams("walks")
    users = app.table("users", str)
    app.stream("clicks", str).join(users, lambda click, user: f"{click} {user}").to("joined")
    driver = app.test()
    driver.pipe("users", "prague", key="ann")

    async def joined() -> None:
        driver.pipe("clicks", "home", key="ann")
        assert driver.read("joined")

    return await fewest(joined)


async def of_jdbc(cluster: Cluster) -> Trace:
    """A hundred records that a sink inserts into SQLite in one transaction."""
    from moldau.connectors.jdbc.sink_task import JdbcSinkTask

    schema = Schema.struct({"id": INT64, "name": STRING})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "walks.db")
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE orders (id BIGINT, name TEXT)")
        task = JdbcSinkTask(VirtualPace())
        task.initialize(SinkContext())
        task.start({"name": "sink", "connection.url": f"sqlite:///{path}"})
        rows = [
            SinkRecord("orders", 0, None, None, schema, Struct(schema, {"id": n, "name": "a"}), n)
            for n in range(BATCH)
        ]

        async def put() -> None:
            task.put(rows)

        try:
            return await fewest(put)
        finally:
            task.stop()


async def of_spark(cluster: Cluster) -> Trace | None:
    """A hundred records that a task reads as rows, planned and read as Spark does it. None without
    Spark."""
    try:
        from pyspark.sql import types
    except ImportError:
        return None
    from moldau.spark.options import parse_read
    from moldau.spark.source import SourceBatchReader

    topic, producer = await cluster.topic("rows"), await cluster.producer()
    for _ in range(BATCH):
        await producer.send(topic, b"value", key=b"key")
    await producer.flush()
    given = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic}
    options = parse_read(given, is_stream=False)
    columns = {
        **dict.fromkeys(("key", "value"), types.BinaryType()),
        "topic": types.StringType(),
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "timestampType": types.IntegerType(),
    }
    schema = types.StructType([types.StructField(*each) for each in columns.items()])

    def read() -> None:
        reader = SourceBatchReader(options, schema)
        found = [row for each in reader.partitions() for row in reader.read(each)]
        assert sum(each.num_rows for each in found) == BATCH

    return await fewest(lambda: asyncio.to_thread(read))


async def of_page(cluster: Cluster) -> Trace:
    """The console's page of all topics."""
    async with browser(cluster.servers) as http:

        async def shown() -> None:
            (await http.get("/topics")).raise_for_status()

        return await fewest(shown)


async def of_schema(cluster: Cluster) -> Trace:
    """A schema that is registered under a new subject."""
    async with in_memory() as (answers, _):
        subjects = (f"s{number}-value" for number in range(ROUNDS + 1))
        return await fewest(lambda: answers.register(next(subjects), USER))


WALKS: Final[dict[str, Callable[[Cluster], Awaitable[Trace | None]]]] = {
    "a record sent and acknowledged": of_produce,
    "a poll that finds 100 records": of_hit,
    "a poll that finds nothing": of_miss,
    "a committed offset": of_commit,
    "ten records of a share group, to the commit": of_share,
    "a client that logs in and asks once": of_login,
    "a record joined with a table": of_join,
    "100 rows into a database": of_jdbc,
    "100 records to Spark": of_spark,
    "a page of the console": of_page,
    "a schema registered": of_schema,
}


async def walk_all() -> dict[str, Trace | None]:
    """Take all walks, one after the other."""
    async with EmbeddedBroker() as broker, AsyncExitStack() as stack:
        cluster = Cluster(broker, stack)
        return {name: await walk(cluster) for name, walk in WALKS.items()}


def page(machine: str, command: str) -> str:
    """Return the committed page."""
    PROFILE.install()
    found = asyncio.run(walk_all())
    lines = [
        "# Ten walks",
        "",
        __doc__.partition("\n\n")[2].strip(),
        "",
        f"`{command}`, {machine}",
        "",
        "| walk | calls | modules | rooms, in the order in which they are first called |",
        "|-|-:|-:|-|",
    ]
    for name, trace in found.items():
        if trace is None:
            lines.append(f"| {name} | - | - | no Spark here |")
        else:
            rooms = ", ".join(trace.rooms)
            lines.append(f"| {name} | {trace.count} | {len(trace.calls)} | {rooms} |")
    return "\n".join(lines) + "\n"
