"""Records of msgspec.Struct go to executors with the module that they are in."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import msgspec
import pytest

from moldau.streams import Streams
from moldau.streams.spark.shipping import pickled

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
    plan = import_module("examples.shop.topology").app.plan()

    for program in plan.programs:
        assert pickle.loads(pickled(program)).index == program.index  # noqa: S301 - our own
