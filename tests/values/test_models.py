"""pydantic's models and dataclasses in Avro: as `model_dump()` gives them, whoever has a say."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    EncodedStr,
    Field,
    PlainSerializer,
    RootModel,
    Tag,
    TypeAdapter,
    computed_field,
    create_model,
    field_serializer,
    model_serializer,
)
from pydantic.dataclasses import dataclass as pydantics
from pydantic_core import core_schema
from typing_extensions import TypeAliasType, TypedDict

from moldau.values import models
from moldau.values.avro.plain import Misfit
from moldau.values.fields import fields_of
from tests.values.avro.samples import record, through

Loud = Annotated[str, PlainSerializer(str.upper)]
Alias = TypeAliasType("Alias", Loud)
T = TypeVar("T")
Both = TypeAliasType("Both", tuple[T, Loud], type_params=(T,))


@dataclass(frozen=True)
class Times:
    """An annotation that makes a schema, as one of pydantic's own does."""

    factor: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        written = core_schema.plain_serializer_function_ser_schema(lambda n: n * self.factor)
        return {**handler(source), "serialization": written}


class Encoder:
    @classmethod
    def decode(cls, data: bytes) -> bytes:
        return data.lower()

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value.upper()

    @classmethod
    def get_json_format(cls) -> str:
        return "loud"


class Rooted(RootModel[Loud]):
    pass


class RootedByField(RootModel[str]):
    @field_serializer("root")
    def loud(self, root: str) -> str:
        return root.upper()


class RootedAsAWhole(RootModel[str]):
    @model_serializer
    def loud(self) -> str:
        return self.root.upper()


@dataclass
class InDataclass:
    s: Loud


@dataclass
class Hiding:
    s: str
    hidden: int = Field(default=0, exclude=True)


@dataclass
class InDecorated:
    s: str

    @field_serializer("s")
    def loud(self, s: str) -> str:
        return s.upper()


class InTypedDict(TypedDict):
    s: Loud


class InTuple(NamedTuple):
    s: Loud


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Alias, "abc"),
        (list[Alias], ["abc"]),
        (Both[int], (1, "abc")),
        (Annotated[int, Times(3)], 2),
        (Annotated[str, EncodedStr(encoder=Encoder)], "abc"),
        (Rooted, Rooted("abc")),
        (list[Rooted], [Rooted("abc")]),
        (RootedByField, RootedByField("abc")),
        (dict[str, RootedByField], {"k": RootedByField("abc")}),
        (RootedAsAWhole, RootedAsAWhole("abc")),
        (list[RootedAsAWhole], [RootedAsAWhole("abc")]),
        (InDataclass, InDataclass("abc")),
        (list[InDataclass | None], [InDataclass("abc"), None]),
        (Hiding, Hiding("abc", 3)),
        (InDecorated, InDecorated("abc")),
        (InTypedDict, {"s": "abc"}),
        (InTuple, InTuple("abc")),
    ],
    ids=str,
)
def test_a_field_is_written_as_its_type_says(kind: Any, value: Any) -> None:
    made = create_model("Made", field=(kind, ...))
    model = made.model_construct(field=value)
    assert fields_of(model) == model.model_dump()


def test_a_root_is_written_as_its_type_says() -> None:
    model = RootModel[dict[str, Loud]]({"a": "abc"})
    assert through({"type": "map", "values": "string"}, model) == {"a": "ABC"}


@pydantics
class Hidden:
    s: str
    hidden: int = Field(default=0, exclude=True)

    @field_serializer("s")
    def loud(self, s: str) -> str:
        return s.upper()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def length(self) -> int:
        return len(self.s)


@pydantics(slots=True)
class Slotted:
    s: Loud
    plain: int = 1


@dataclass
class InDict:
    above: int


@pydantics(slots=True)
class SlottedBelow(InDict):
    below: int = 2


@pydantics
class Whole:
    s: str

    @model_serializer
    def loud(self) -> dict[str, str]:
        return {"s": self.s.upper()}


@pytest.mark.parametrize("value", [Hidden("abc", 3), Slotted("abc"), SlottedBelow(7), Whole("abc")])
def test_pydantics_dataclasses_are_written_as_they_say(value: Any) -> None:
    dumped = TypeAdapter(type(value)).dump_python(value)
    dumped.pop("length", None)
    assert fields_of(value) == dumped


def test_a_computed_field_of_a_dataclass_is_written_where_the_schema_has_it() -> None:
    assert through(record(s="string"), Hidden("abc")) == {"s": "ABC"}
    assert through(record(s="string", length="int"), Hidden("abc")) == {"s": "ABC", "length": 3}
    with pytest.raises(Misfit, match="no default"):
        through(record(s="string", hidden="int"), Hidden("abc", 3))


class Seen(BaseModel):
    kind: Literal["seen"] = "seen"
    id: int = 1


@pydantics
class Heard:
    kind: Literal["heard"] = "heard"
    id: int = 1


@dataclasses.dataclass
class Plain:
    id: int = 1


class Noticed(BaseModel):
    what: Annotated[Seen | Heard | Plain, AfterValidator(lambda each: each)]
    which: Annotated[Seen | Heard, Field(discriminator="kind")]
    more: list[
        Annotated[
            Annotated[Seen, Tag("seen")] | Annotated[Heard, Tag("heard")],
            Discriminator(lambda each: each.kind),
        ]
    ]


def test_what_is_only_checked_keeps_its_class() -> None:
    """By which a union finds its branch."""
    seen, heard = Seen(), Heard()
    found = fields_of(Noticed(what=heard, which=heard, more=[heard, seen]))
    assert found is not None
    assert found["what"] is found["which"] is heard
    assert [type(each) for each in found["more"]] == [Heard, Seen]


class RootedTree(RootModel["list[RootedTree]"]):
    pass


class InTree(BaseModel):
    tree: RootedTree


def test_roots_in_roots_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    levels, value = 40, RootedTree([])
    for _ in range(levels):
        value = RootedTree([value])
    walks, walk = [], models._without_roots

    def counted(part: Any) -> Any:
        walks.append(part)
        return walk(part)

    monkeypatch.setattr(models, "_without_roots", counted)
    tree = InTree(tree=value)
    assert fields_of(tree) == tree.model_dump()
    assert len(walks) < 4 * levels


def test_all_that_is_dumped_is_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_model("Made", one=(Loud, ...), two=(Loud, ...))
    dumps, dump = [], models._dumped

    def counted(value: Any, **options: Any) -> Any:
        dumps.append(options)
        return dump(value, **options)

    monkeypatch.setattr(models, "_dumped", counted)
    assert fields_of(made(one="a", two="b")) == {"one": "A", "two": "B"}
    assert len(dumps) == 1
