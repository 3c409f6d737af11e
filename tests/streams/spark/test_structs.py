"""Records of msgspec.Struct go to executors with the module that they are in."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

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
