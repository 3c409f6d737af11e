"""What an app's steps are made of goes to executors that have none of its modules."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module, invalidate_caches
from inspect import get_annotations
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from moldau.streams import Streams, col, count_window, session, sliding, tumbling
from moldau.streams.plan import joins
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import functions_in
from moldau.streams.spark.shipping import pickled

MODULE = "shipped_functions"
TEXT = """
from dataclasses import dataclass
from functools import partial

import msgspec

class Order(msgspec.Struct):
    user: str
    amount: int

@dataclass
class Visit:
    user: str
    amount: int

def one(value):
    return value

def two(so_far, value):
    return so_far

def three(key, so_far, value):
    return so_far

def pair(key, value):
    return key, value

def pairs(key, value):
    return [(key, value)]

def zero():
    return 0

async def awaited(value):
    return value

bound = partial(two, 1)

def headers(value, *, headers):
    return [*headers, ("app", b"1")]

class Operator:
    def __init__(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record)
"""

LOADING = """
import pickle, sys
for size in iter(lambda: int.from_bytes(sys.stdin.buffer.read(8), "big"), 0):
    program = pickle.loads(sys.stdin.buffer.read(size))
    assert MODULE not in sys.modules
    for step in program.steps:
        make = getattr(step.operation, "make", None)
        if step.operation.kind == "select" and make is not dict:
            print(make(**{each: 1 for each in make.__struct_fields__}))
        for name, each in getattr(getattr(step.operation, "folding", None), "functions", ()):
            if name.startswith("make"):
                print(each(total=3))
""".replace("MODULE", repr(MODULE))

Build = Callable[[Streams, Any, Any], object]
"""Adds the operator to an app that has the stream `s`, with functions of the module `f`."""


CASES: Mapping[str, tuple[type[op.Operation], Build]] = {
    "timestamp": (op.Source, lambda app, s, f: app.stream("t", str, key=str, timestamp=f.two)),
    "placed": (op.Source, lambda app, s, f: app.stream("t", str, key=str, partitioner=f.two)),
    "record": (op.Source, lambda app, s, f: app.stream("t", f.Order, key=str)),
    "visit": (op.Source, lambda app, s, f: app.stream("t", f.Visit, key=str).group_by_key()
              .count(name="visits")),
    "table timestamp": (op.TableSource, lambda app, s, f: app.table("t", str, key=str,
                        timestamp=f.two)),
    "map": (op.MapPairs, lambda app, s, f: s.map(f.pair)),
    "map_values": (op.MapValues, lambda app, s, f: s.map_values(f.one)),
    "partial": (op.MapValues, lambda app, s, f: s.map_values(f.bound)),
    "select_key": (op.SelectKey, lambda app, s, f: s.select_key(f.one)),
    "filter": (op.Filter, lambda app, s, f: s.filter(f.one)),
    "select": (op.Select, lambda app, s, f: app.stream("t", f.Order, key=str)
               .select("user", double=col("amount") * 2).to("o")),
    "with_columns": (op.Select, lambda app, s, f: app.stream("t", f.Order, key=str)
                     .with_columns(double=col("amount") * 2).to("o")),
    "flat_map": (op.FlatMap, lambda app, s, f: s.flat_map(f.one)),
    "flat_map_pairs": (op.FlatMap, lambda app, s, f: s.flat_map_pairs(f.pairs)),
    "peek": (op.Peek, lambda app, s, f: s.peek(f.one)),
    "map_headers": (op.MapHeaders, lambda app, s, f: s.map_headers(f.headers)),
    "branch": (op.Branch, lambda app, s, f: s.branch(f.one)),
    "repartition": (op.Sink, lambda app, s, f: s.repartition("r", partitioner=f.two)),
    "to a chosen topic": (op.Sink, lambda app, s, f: s.to(f.two)),
    "to partitioner": (op.Sink, lambda app, s, f: s.to("o", partitioner=f.two)),
    "aggregate": (op.Aggregate, lambda app, s, f: s.group_by_key().aggregate(f.zero, f.two,
                  name="a")),
    "sum of": (op.Aggregate, lambda app, s, f: s.group_by_key().sum(f.one, name="a")),
    "top_k": (op.Aggregate, lambda app, s, f: s.group_by_key().top_k(2, by=f.one, name="a")),
    "reduce": (op.Aggregate, lambda app, s, f: s.group_by_key().reduce(f.two, name="a")),
    "cogroup": (op.Aggregate, lambda app, s, f: s.group_by_key().cogroup(f.two)
                .aggregate(0, name="a")),
    "agg": (op.Aggregate, lambda app, s, f: app.stream("t", f.Order, key=str).group_by_key()
            .agg(total=col("amount").sum(), name="a")),
    "window": (op.WindowAggregate, lambda app, s, f: windowed(s, tumbling("1m"), f)),
    "sliding": (op.SlidingAggregate, lambda app, s, f: windowed(s, sliding("1m"), f)),
    "session": (op.SessionAggregate, lambda app, s, f: windowed(s, session("1m"), f)),
    "count window": (op.CountAggregate, lambda app, s, f: windowed(s, count_window(3), f)),
    "table filter": (op.TableFilter, lambda app, s, f: app.table("t", str, key=str).filter(f.one)),
    "table map_values": (op.TableMapValues, lambda app, s, f: app.table("t", str, key=str)
                         .map_values(f.one)),
    "table group_by": (op.Regroup, lambda app, s, f: app.table("t", str, key=str)
                       .group_by(f.pair).count(name="a")),
    "table aggregate": (op.TableAggregate, lambda app, s, f: app.table("t", str, key=str)
                        .group_by(kept_pair).aggregate(0, f.two, f.two, name="a")),
    "process": (op.Process, lambda app, s, f: s.process(f.Operator, type=str)),
    "async": (op.AsyncStep, lambda app, s, f: s.map_values(f.awaited)),
    "map_batch": (op.MapBatch, lambda app, s, f: s.map_batch(f.one)),
    "stream join": (joins.StreamJoin, lambda app, s, f: s.join(app.stream("t", str, key=str),
                    f.two, within="1m", name="j")),
    "table lookup": (joins.TableLookup, lambda app, s, f: s.join(app.table("t", str, key=str),
                     f.two)),
    "global lookup": (joins.GlobalLookup, lambda app, s, f: s.join(
        app.global_table("t", str, key=str), key=f.one)),
    "table join": (joins.TableJoin, lambda app, s, f: app.table("t", str, key=str).join(
        app.table("u", str, key=str), f.two)),
    "subscription": (joins.Subscribe, lambda app, s, f: app.table("t", str, key=str).join(
        app.table("u", str, key=str), on=f.one, name="j")),
    "foreign key join": (joins.Resolve, lambda app, s, f: app.table("t", str, key=str).join(
        app.table("u", str, key=str), f.two, on=kept, name="j")),
    "late lookup": (joins.DelayedLookup, lambda app, s, f: s.join(
        app.table("t", str, key=str, versioned="1h"), f.two, grace="1m", name="j")),
}  # fmt: skip
NEVER_RUN = {"Repartition"}
"""It is cut into a sink and a source when the plan is compiled."""

EXECUTOR = """
import pickle, sys
program = pickle.loads(sys.stdin.buffer.read())
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.task import Task, TaskSettings
task = Task(program, 0, {}, settings=TaskSettings(cache_bytes=1000), metadata=())
value = b'{"userName":"ann","place":{"city":"Brno"}}'
task.add("in", Chunk([0], [1], [b"k"], [value], 1, None))
task.set_at_end("in", is_at_end=True)
while task.process(5, 10):
    pass
task.flush()
(outputs,) = task.take_outputs()
sys.stdout.buffer.write(outputs.values[0])
"""


def windowed(stream: Any, windows: Any, functions: Any) -> Any:
    return (
        stream.group_by_key()
        .window(windows)
        .aggregate(0, functions.two, merge=functions.three, name="w")
    )


def kept(value: str) -> str:
    return value


def kept_pair(key: str, value: str) -> tuple[str, str]:
    return key, value


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that is neither in the working directory nor beside an app."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    (tmp_path / f"{MODULE}.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    invalidate_caches()
    yield import_module(MODULE)
    sys.modules.pop(MODULE)


def test_functions_and_records_of_every_operator_go_to_executors(functions: ModuleType) -> None:
    sent = b""
    for name, (kind, build) in CASES.items():
        app = Streams(name.replace(" ", "-"))
        build(app, app.stream("in", str, key=str), functions)
        programs = app.plan().programs
        kinds = {type(step.operation) for program in programs for step in program.steps}
        assert kind in kinds, name
        for program in programs:
            data = pickled(program)
            sent += len(data).to_bytes(8, "big") + data

    # In another process and directory: in this one cloudpickle finds the classes themselves.
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", LOADING], input=sent, capture_output=True, check=False, cwd="/"
    )

    assert done.returncode == 0, done.stderr.decode()[-1000:]
    made = done.stdout.decode().splitlines()
    assert made == ["Row(user=1, double=1)", "Row(user=1, amount=1, double=1)", "Row(total=3)"]


def test_each_operation_that_can_hold_a_function_is_sent_by_a_test() -> None:
    holders = {each.__name__ for each in _operations(op.Operation) if _can_hold_functions(each)}

    assert holders - NEVER_RUN == {kind.__name__ for kind, _ in CASES.values()}


def test_functions_are_found_in_what_moldau_wraps_around_them(functions: ModuleType) -> None:
    app = Streams("app")
    stream = app.stream("in", str, key=str)
    stream.map_values(functions.bound).group_by_key().cogroup(functions.three).aggregate(
        functions.zero, name="a"
    )

    found = set(functions_in(app.plan()))

    assert {functions.two, functions.three, functions.zero} <= found


def _operations(kind: type[op.Operation]) -> Iterator[type[op.Operation]]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("moldau."):
            yield each
            yield from _operations(each)


def _can_hold_functions(kind: type[op.Operation]) -> bool:
    texts = " ".join(map(str, get_annotations(kind).values()))
    words = ("Call", "Folding", "Timestamp", "Typed", "Partitioning")
    return any(word in texts for word in words)


class Place(msgspec.Struct, frozen=True):
    city: str
    zip_code: str | None = None


class Order(msgspec.Struct, kw_only=True, rename="camel"):
    user_name: str
    amount: float = 1.0
    tags: list[str] = msgspec.field(default_factory=list)
    place: Place

    def doubled(self) -> Order:
        return Order(user_name=self.user_name, amount=2 * self.amount, place=self.place)


class Gift(Order, kw_only=True):
    note: str = "none"


def gifted(order: Order) -> Gift:
    order = order.doubled()
    return Gift(user_name=order.user_name, amount=order.amount, place=Place("Praha"))


def test_a_struct_has_its_fields_and_methods_in_an_executor() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    app = Streams("app")
    app.stream("in", Order, key=str).filter(lambda order: order.amount > 0).map_values(gifted).to(
        "out"
    )
    (program,) = app.plan().programs

    # In another process: in this one cloudpickle finds the classes themselves.
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", EXECUTOR], input=pickled(program), capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode()
    assert msgspec.json.decode(done.stdout) == {
        "userName": "ann",
        "amount": 2.0,
        "tags": [],
        "place": {"city": "Praha", "zip_code": None},
        "note": "none",
    }


def test_programs_with_dataclasses_are_sent() -> None:
    """msgspec keeps what it knows of a dataclass in the class, and that cannot be pickled."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    plan = import_module("examples.shop.topology").app.plan()

    for program in plan.programs:
        assert pickle.loads(pickled(program)).index == program.index  # noqa: S301 - our own


MODELS = """
from __future__ import annotations
from dataclasses import dataclass
from datetime import datetime
from parts.places import Place

@dataclass
class Visit:
    userName: str
    place: Place
    at: datetime | None = None
"""
PLACES = """
from dataclasses import dataclass

@dataclass
class Place:
    city: str
"""
VISITS = """
import models
from moldau.streams import Streams
from parts.words import shouted

app = Streams("app")
app.stream("in", models.Visit, key=str).map_values(lambda each: shouted(each.place.city)).to("out")
"""
WORDS = """
import threading

LOCK = threading.Lock()

def shouted(text):
    return {called}
"""


@pytest.mark.parametrize("called", ["text.upper()", "text.upper() if LOCK else text"])
def test_modules_beside_the_app_go_with_it_unless_they_cannot_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    texts = {"models": MODELS, "parts/places": PLACES, "visits": VISITS, "parts/__init__": ""}
    for name, text in {**texts, "parts/words": WORDS.format(called=called)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("models", "parts", "parts.places", "parts.words", "visits")
    try:
        (program,) = import_module("visits").app.plan().programs
        sent = pickled(program)
    finally:
        for each in names:
            sys.modules.pop(each, None)

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", EXECUTOR], input=sent, capture_output=True, check=False
    )

    if "LOCK" in called:
        assert b"No module named" in done.stderr
    else:
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == b"BRNO"
