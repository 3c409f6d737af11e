"""Expressions, where records are JSON and where they are columns already.

Everything but Spark is the processor time of this process: tasks without a worker and broker, and
the parts that a form in columns would need. Spark's own rows are wall time on two cores, from
columns in its memory to nowhere.
"""

from __future__ import annotations

import atexit
import io
import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from bench.harness import Case, Goal, Missing, Table
from bench.stream_apps import Order
from moldau.streams import Streams, col, tumbling
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.task import Task
from moldau.streams.expressions.arrow import record_of
from moldau.streams.expressions.python import function_of
from moldau.streams.expressions.typed import checked
from moldau.streams.state.backing import MemoryBacking

RECORDS: Final = 20_000
USERS: Final = 1_000
START_MS: Final = 1_700_000_000_000
SPARK_ROWS: Final = 8_000_000

LAMBDAS_DICT: Final = "lambdas over dicts"
LAMBDAS: Final = "lambdas over a declared type"
LOOP: Final = "expressions in the loop"
LOOP_FEW: Final = "the same, a type of the used fields"
VIA_STRUCTS: Final = "msgspec to columns, Arrow"
VIA_READER: Final = "pyarrow's reader, Arrow"
REFERENCE: Final = "row by row"
KERNELS: Final = "Arrow"
BY_HAND: Final = "by hand"
TRANSLATED: Final = "translated"

KEPT: Final = (col("amount") > 0) & (col("kind") != "bot")
TAXED: Final = col("amount") * 1.19
SHOUTED: Final = col("country").upper()


class Priced(msgspec.Struct):
    user: str
    amount: float
    country: str


class Used(msgspec.Struct):
    """The fields of an Order that the five operators use."""

    user: str
    amount: float
    kind: str
    country: str


class Amount(msgspec.Struct):
    amount: float


@cache
def values() -> list[bytes]:
    chance = random.Random(7)
    return [
        b'{"user":"user-%07d","amount":%d.%02d,"kind":"view","country":"de","item":%d,'
        b'"note":"delivered to the door, %s"}'
        % (chance.randrange(USERS), chance.randrange(1, 999), chance.randrange(100), at, b"x" * 45)
        for at in range(RECORDS)
    ]


@cache
def keys() -> list[bytes]:
    return [msgspec.json.decode(each)["user"].encode() for each in values()]


@cache
def chunk() -> Chunk:
    """Return the records, three to a millisecond, so that they fall in a few windows."""
    times = [START_MS + at * 3 for at in range(RECORDS)]
    return Chunk(range(RECORDS), times, keys(), values(), RECORDS)


def task_of(app: Streams) -> Callable[[], object]:
    """Return the work of a task on all records, without the commit at the end."""
    (program,) = app.plan().programs
    task = Task(program, 0, {spec.name: MemoryBacking() for spec in program.stores})

    def run() -> object:
        task.add("in", chunk())
        task.set_at_end("in", is_at_end=True)
        while task.process(0):
            pass
        return task.take_outputs()

    return run


def stateless(kind: Any) -> Callable[[], object]:
    """The five operators as functions; `kind` is the type of the records, or None for dicts."""
    app = Streams("bench")
    orders: Any = app.stream("in", kind, key=str) if kind else app.stream("in", key=str)
    if kind:
        made = (
            orders.filter(lambda order: order.amount > 0)
            .map_values(lambda order: msgspec.structs.replace(order, amount=order.amount * 1.19))
            .filter(lambda order: order.kind != "bot")
            .map_values(lambda order: msgspec.structs.replace(order, country=order.country.upper()))
            .map_values(lambda order: Priced(order.user, order.amount, order.country))
        )
    else:
        made = (
            orders.filter(lambda order: order["amount"] > 0)
            .map_values(lambda order: {**order, "amount": order["amount"] * 1.19})
            .filter(lambda order: order["kind"] != "bot")
            .map_values(lambda order: {**order, "country": order["country"].upper()})
            .map_values(lambda order: {name: order[name] for name in Priced.__struct_fields__})
        )
    made.to("out")
    return task_of(app)


def stateless_in_loop(kind: Any) -> Callable[[], object]:
    app = Streams("bench")
    (
        app.stream("in", kind, key=str)
        .filter(col("amount") > 0)
        .with_columns(amount=TAXED)
        .filter(col("kind") != "bot")
        .with_columns(country=SHOUTED)
        .select("user", "amount", "country")
        .to("out")
    )
    return task_of(app)


def priced(table: Any) -> Any:
    """Return the five operators over a table."""
    table = table.filter(KEPT.arrow(table))
    return pa.table(
        {"user": table["user"], "amount": TAXED.arrow(table), "country": SHOUTED.arrow(table)}
    )


def encoded(table: Any) -> list[bytes]:
    encode = msgspec.json.Encoder().encode
    columns = (table[name].to_pylist() for name in Priced.__struct_fields__)
    return [encode(Priced(*row)) for row in zip(*columns, strict=True)]


def from_structs(names: tuple[str, ...]) -> Any:
    """Decode with msgspec, and make columns of these fields."""
    decode = msgspec.json.Decoder(Order).decode
    rows = [decode(each) for each in values()]
    return pa.table({name: [getattr(row, name) for row in rows] for name in names})


def from_reader(names: tuple[str, ...]) -> Any:
    """Decode all fields with pyarrow's reader of lines, so that a bad one is noticed."""
    schema = pa.schema(
        [("user", pa.string()), ("amount", pa.float64()), ("kind", pa.string()),
         ("country", pa.string()), ("item", pa.int64()), ("note", pa.string())]
    )  # fmt: skip
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pa.json.ReadOptions(use_threads=False)
    return pa.json.read_json(io.BytesIO(b"\n".join(values())), read, options).select(names)


FIELDS: Final = ("user", "amount", "kind", "country")
Source = Callable[[tuple[str, ...]], Any]


def stateless_by_columns(source: Source) -> Callable[[], object]:
    return lambda: encoded(priced(source(FIELDS)))


def windowed(kind: Any, total: Any) -> Callable[[], object]:
    """A sum for each key and minute, of what a function or an expression selects."""
    app = Streams("bench")
    orders: Any = app.stream("in", kind, key=str) if kind else app.stream("in", key=str)
    windows = orders.group_by_key().window(tumbling("1m", grace="5s"))
    windows.sum(total, name="sums").changes().to("out")
    return task_of(app)


def windowed_by_columns(source: Source) -> Callable[[], object]:
    """What a task would take from Arrow: the sums of a batch, to be added to those of the store."""

    def run() -> object:
        table = source(("amount",))
        times = pa.array(chunk().timestamps, pa.int64())
        windows = pc.multiply(pc.divide(times, 60_000), 60_000)
        table = table.append_column("key", [pa.array(keys())]).append_column("start", [windows])
        grouped = table.group_by(["key", "start"], use_threads=False)
        return grouped.aggregate([("amount", "sum")]).to_pylist()

    return run


@cache
def typed_table() -> Any:
    return from_structs(FIELDS)


def row_by_row() -> object:
    """The same expressions over the rows of a table, by the reference."""
    table = typed_table()
    record = record_of(table.schema)
    kept, taxed, shouted = (
        function_of(checked(each.node, record, "bench"), record) for each in (KEPT, TAXED, SHOUTED)
    )
    rows = [
        {"user": row["user"], "amount": taxed(row), "country": shouted(row)}
        for row in table.to_pylist()
        if kept(row)
    ]
    return pa.Table.from_pylist(rows)


def rate(make: Callable[[], Callable[[], object]], count: int = RECORDS) -> float:
    """Return the records a second of processor time."""
    work = make()
    work()
    done, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < 0.5:
        work()
        done += count
    return done / elapsed


@cache
def frame() -> Any:
    """Return the rows in Spark's memory. Raise Missing without Spark or Java."""
    try:
        from bench.streams_spark import session
    except ImportError as error:
        raise Missing(f"{error.name} is not installed") from None
    spark = session()
    found = spark.range(SPARK_ROWS).selectExpr(
        "concat('user-', id % 1000) AS user", "CAST(id % 99999 AS DOUBLE) / 100 AS amount",
        "IF(id % 50 = 0, 'bot', 'view') AS kind", "'de' AS country",
    ).cache()  # fmt: skip
    found.count()
    atexit.register(found.unpersist)
    return found


def spark_rate(chosen: Callable[[Any], Any]) -> float:
    rows = chosen(frame())
    start = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return SPARK_ROWS / (time.perf_counter() - start)


def hand_written(rows: Any) -> Any:
    from pyspark.sql import functions as F

    kept = rows.filter((F.col("amount") > 0) & (F.col("kind") != "bot"))
    taxed, shouted = F.col("amount") * 1.19, F.upper("country")
    return kept.select("user", taxed.alias("amount"), shouted.alias("country"))


def translated(rows: Any) -> Any:
    kept = rows.filter(KEPT.spark(rows))
    taxed, shouted = TAXED.spark(kept), SHOUTED.spark(kept)
    return kept.select("user", taxed.alias("amount"), shouted.alias("country"))


def _cases(named: Mapping[str, Callable[[], Callable[[], object]]]) -> list[Case]:
    return [Case(name, partial(rate, make)) for name, make in named.items()]


def tables() -> Iterator[Table]:
    unit = "records a second of one core"
    yield Table(
        "five operators, JSON to JSON",
        unit,
        _cases(
            {
                LAMBDAS_DICT: partial(stateless, None),
                LAMBDAS: partial(stateless, Order),
                LOOP: partial(stateless_in_loop, Order),
                LOOP_FEW: partial(stateless_in_loop, Used),
                VIA_STRUCTS: partial(stateless_by_columns, from_structs),
                VIA_READER: partial(stateless_by_columns, from_reader),
            }
        ),
        [Goal(LOOP, LAMBDAS_DICT, ratio_at_least=3.0)],
        notes=["Both forms by columns are without a task, keys, times and policies."],
    )
    yield Table(
        "a sum for each key and minute, of JSON",
        unit,
        _cases(
            {
                LAMBDAS_DICT: partial(windowed, None, lambda order: order["amount"]),
                LAMBDAS: partial(windowed, Order, lambda order: order.amount),
                LOOP: partial(windowed, Order, col("amount")),
                LOOP_FEW: partial(windowed, Amount, col("amount")),
                VIA_STRUCTS: partial(windowed_by_columns, from_structs),
                VIA_READER: partial(windowed_by_columns, from_reader),
            }
        ),
        [Goal(LOOP, LAMBDAS_DICT, ratio_at_least=2.0)],
        notes=["Both forms by columns are without a task, a store, late records and policies."],
    )
    yield Table(
        "five operators over an Arrow table",
        unit,
        _cases({REFERENCE: lambda: row_by_row, KERNELS: lambda: lambda: priced(typed_table())}),
        [Goal(KERNELS, REFERENCE, ratio_at_least=3.0)],
    )
    yield Table(
        "five operators over a DataFrame of Spark",
        "rows a second on two cores",
        [
            Case(BY_HAND, partial(spark_rate, hand_written)),
            Case(TRANSLATED, partial(spark_rate, translated)),
        ],
        [Goal(TRANSLATED, BY_HAND, ratio_at_least=0.9)],
    )
