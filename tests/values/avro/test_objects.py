"""Avro of objects: a field keeps its object, by whose class a union finds its branch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Barrier, Thread
from typing import Annotated, Any

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    computed_field,
    field_serializer,
    model_serializer,
)

from moldau.values.avro import fit as fitting
from moldau.values.avro.fit import Values
from moldau.values.avro.plain import Misfit
from moldau.values.fields import fields_of
from tests.values.avro.samples import named, record, through


class Deposit(BaseModel):
    amount: int


class Withdrawal(BaseModel):
    amount: int


class Entry(BaseModel):
    what: Deposit | Withdrawal
    more: list[Deposit | Withdrawal] = []


EITHER: list[Any] = [named("Deposit", amount="int"), named("Withdrawal", amount="int")]


def test_a_model_in_a_model_keeps_its_class() -> None:
    schema = record(what=EITHER, more={"type": "array", "items": ["Deposit", "Withdrawal"]})
    value = Entry(what=Withdrawal(amount=5), more=[Withdrawal(amount=1), Deposit(amount=2)])
    found = through(schema, value, return_record_name=True)
    assert found["what"] == ("Withdrawal", {"amount": 5})
    assert [name for name, _ in found["more"]] == ["Withdrawal", "Deposit"]


class Area(BaseModel):
    side: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        return self.side**2


def test_a_computed_field_is_written_where_the_schema_has_it() -> None:
    assert through(record(side="int"), Area(side=3)) == {"side": 3}
    assert through(record(side="int", size="int"), Area(side=3)) == {"side": 3, "size": 9}
    assert through({"type": "map", "values": "int"}, Area(side=3)) == {"side": 3}


class Base(BaseModel):
    model_config = ConfigDict(extra="allow")


class Aliased(Base):
    sku: str = Field(alias="article", default="a")


class AliasedOut(Base):
    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)
    sku: str = Field(alias="article", default="a")


class Secretive(Base):
    sku: str = "a"
    hidden: str = Field("x", exclude=True)


class Told(Base):
    sku: Annotated[int, PlainSerializer(str)] = 1
    others: list[Annotated[int, PlainSerializer(str)]] = [1]
    name: str = "n"

    @field_serializer("name")
    def loud(self, name: str) -> str:
        return name.upper()


class ToldAsAWhole(Base):
    sku: int = 1

    @model_serializer
    def whole(self) -> dict[str, Any]:
        return {"sku": str(self.sku)}


class ToldByItself(Base):
    sku: int = 1

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"sku": "mine"}


class Money:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(lambda _: "5 EUR")
        return core_schema.is_instance_schema(cls, serialization=written)


class Paid(Base):
    sku: Money


class Listed(Base):
    sku: dict[str, list[RootModel[int]]]
    root: RootModel[str]


class Chosen(Base):
    sku: Any = Field(default=None, exclude_if=lambda each: each is None)


@pytest.mark.parametrize(
    "model",
    [
        Aliased(article="b"),
        AliasedOut(article="b"),
        Base.model_validate({"sku": "a", "any": [1]}),
        Secretive(hidden="x"),
        Told(),
        ToldAsAWhole(),
        ToldByItself(),
        Paid(sku=Money()),
        Listed(sku={"a": [RootModel[int](1)]}, root=RootModel[str]("r")),
        Chosen(),
        Chosen(sku=1),
        RootModel[dict[str, int]]({"a": 1}),
        Deposit.model_construct(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_one_level_is_what_pydantic_would_write(model: BaseModel) -> None:
    """Where no model is below. Names, order, serializers, extras and what is left out."""
    found = fields_of(model)
    assert found is not None
    assert list(found.items()) == list(model.model_dump().items())


@pytest.mark.parametrize("value", [RootModel[int](1), RootModel[list[int]]([1])])
def test_a_root_without_fields_is_no_record(value: Any) -> None:
    with pytest.raises(Misfit, match="record R was expected"):
        through(record(a="int"), value)


def twin() -> type[Any]:
    @dataclass
    class Item:
        sku: str

    return Item


ITEMS = [named("a.Item", sku="string"), "null", named("b.Item", sku="string")]


def test_a_class_that_two_records_are_named_after_is_refused() -> None:
    item = twin()("x")
    with pytest.raises(Misfit, match=r"^a tuple that names .* a\.Item, b\.Item are all named so"):
        through(ITEMS, item)
    for name in ("a.Item", "b.Item"):
        assert through(ITEMS, (name, item), return_record_name=True) == (name, {"sku": "x"})


def test_only_records_are_named_after_classes() -> None:
    enum = {"type": "enum", "name": "b.Item", "symbols": ["A"]}
    union = [named("c.Other", sku="string"), named("a.Item", sku="string"), enum]
    assert through(union, twin()("x"), return_record_name=True)[0] == "a.Item"


class Interrupted(dict[str, Any]):
    """Another thread writes its first value while the fields of a record are being looked at."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.write: Any = None
        self.found: Any = None

    def items(self) -> Iterator[Any]:  # type: ignore[override]
        for index, each in enumerate(super().items()):
            if index == 1 and self.write is not None:
                write, self.write = self.write, None
                thread = Thread(target=self.meanwhile, args=(write,))
                thread.start()
                thread.join()
            yield each

    def meanwhile(self, write: Any) -> None:
        self.found = outcome(write)


def outcome(write: Any) -> Any:
    try:
        return write()
    except Misfit as misfit:
        return misfit


def test_two_threads_may_write_their_first_value_at_once() -> None:
    values = Values({})
    _, fields = values._record(record(a="int", b="string"))
    interrupted = Interrupted(fields)
    fit = fitting._record("R", interrupted)
    good = {"a": 1, "b": "x"}
    interrupted.write = lambda: fit({"a": 1, "b": 2})
    assert fit(good) == good
    assert type(interrupted.found) is Misfit


def test_first_values_of_many_threads_are_all_checked() -> None:
    fields = {f"f{index}": "int" for index in range(200)}
    good = dict.fromkeys(fields, 1)
    bad = {**good, "f199": "x"}
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            fit, start = Values({}).fit(record(**fields)), Barrier(4)
            found: list[Any] = []

            def first(fit: Any = fit, start: Any = start, found: list[Any] = found) -> None:
                start.wait()
                found.append((outcome(lambda: fit(good)), outcome(lambda: fit(bad))))

            threads = [Thread(target=first) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert all(taken == good and type(refused) is Misfit for taken, refused in found)
            assert len(found) == 4
    finally:
        sys.setswitchinterval(interval)
