"""What a declaration makes of a class, without any bytes."""

from __future__ import annotations

import copy
import pickle

import pytest

from moldau.ids import ZERO_UUID
from moldau.protocol.constructor import maker_of
from moldau.protocol.declare import Data, Field, Struct, field
from moldau.protocol.spec import MISSING, ArrayOf, Kind, blank
from moldau.protocol.types import INT32, STRING, Int32
from moldau.protocol.versions import NO_VERSIONS, Versions, parse_versions
from tests.protocol.sample import Forms, Leader, Lengths, MemberKey, Nested, Partition, Place, Topic


class WrongName(Struct):
    """Names a type that does not exist."""

    number: Int33  # type: ignore[name-defined]  # noqa: F821


class WrongShape(Struct):
    """Uses an annotation that the protocol has no form for."""

    numbers: dict[str, Int32]


class WrongDefault(Struct):
    """Gives a default without `field`."""

    number: Int32 = 3


def test_a_field_without_a_default_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="index"):
        Partition(offset=1)  # type: ignore[call-arg]


def test_unknown_and_positional_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Place(colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Place("here")  # type: ignore[call-arg]


def test_defaults_are_fresh_for_each_instance() -> None:
    one, other = Partition(index=1, offset=2), Partition(index=1, offset=2)
    one.leader.leader_id = 5
    one.replicas.append(7)
    assert other.leader.leader_id == -1
    assert other.replicas == []


def test_a_maker_gives_what_the_constructor_gives() -> None:
    make = maker_of(Partition, "offset", "index")
    made = make(2, 1)
    assert made == Partition(index=1, offset=2)
    assert made.leader is not make(2, 1).leader
    assert made.leader == Leader()
    with pytest.raises(TypeError):
        make(2)
    with pytest.raises(AssertionError, match="Partition needs"):
        maker_of(Partition, "offset")


def test_a_default_struct_is_made_when_somebody_looks() -> None:
    partition = Partition(index=1, offset=2)
    assert Partition.spec.field("leader").is_late
    assert partition._leader is None  # type: ignore[attr-defined]
    assert partition == Partition(index=1, offset=2, leader=Leader())
    assert partition.leader is partition.leader
    partition.leader = Leader(leader_id=4)
    assert partition.leader.leader_id == 4
    with pytest.raises(TypeError, match=r"Partition\.leader is never null"):
        partition.leader = None  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"Partition\.leader is never null"):
        Partition(index=1, offset=2, leader=None)  # type: ignore[arg-type]


def test_structs_are_compared_by_value_and_type() -> None:
    assert Place(host="a") == Place(host="a", port=-1)
    assert Place(host="a") != Place(host="b")
    assert Leader() != Place()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Place())


def test_there_are_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Place().colour = "red"  # type: ignore[attr-defined]


def test_a_description_shows_what_is_not_default_and_hides_bytes() -> None:
    topic = Topic(name="a", topic_id=ZERO_UUID, partitions=[Partition(index=3, offset=4)])
    assert repr(topic) == "Topic(name='a', partitions=[Partition(index=3, offset=4)])"
    secret = Lengths(name="n", nick=None, blob=b"password", extra=None, view=b"", records=None)
    assert "password" not in repr(secret)
    assert "blob=<8 bytes>" in repr(secret)


def test_messages_can_be_copied_and_pickled() -> None:
    topic = Topic(partitions=[Partition(index=1, offset=2)])
    for again in (copy.copy(topic), copy.deepcopy(topic), pickle.loads(pickle.dumps(topic))):  # noqa: S301
        assert again == topic
        assert again is not topic


def test_a_spec_tells_the_header_of_a_message() -> None:
    spec = Forms.spec
    assert (spec.name, spec.kind, spec.key) == ("Forms", Kind.REQUEST, 902)
    assert spec.versions == Versions(0, 3)
    assert spec.flexible_since == 1
    assert [spec.is_flexible(version) for version in spec.versions.all()] == [False] + [True] * 3
    assert spec.is_unstable(3)
    assert not spec.is_unstable(2)
    assert spec.stable_versions == Versions(0, 2)
    assert Nested.spec.stable_versions == Nested.spec.versions
    assert MemberKey.spec.key == 3
    assert MemberKey.spec.kind is Kind.LOG_KEY
    assert MemberKey.spec.flexible_since is None


def test_a_spec_tells_each_field_in_order() -> None:
    assert [spec.name for spec in Partition.spec.fields] == [
        "index",
        "epoch",
        "offset",
        "error_message",
        "leader",
        "replicas",
    ]
    error = Partition.spec.field("error_message")
    assert error.schema_name == "ErrorMessage"
    assert error.type is STRING
    assert (error.since, error.until) == (1, None)
    assert error.is_nullable(1)
    assert not error.is_required
    replicas = Partition.spec.field("replicas")
    assert replicas.type == ArrayOf(INT32)
    assert replicas.is_tagged(3)
    assert not replicas.is_tagged(2)
    assert not replicas.is_present(2)
    leader = Partition.spec.field("leader")
    assert leader.type is Leader.spec
    assert Partition.spec.field("index").default is MISSING
    assert Partition.spec.field("index").is_required
    with pytest.raises(KeyError, match="Partition has no field 'colour'"):
        Partition.spec.field("colour")


def test_schema_names_and_late_nulls_are_kept() -> None:
    isr_only = Forms.spec.field("isr_only")
    assert isr_only.schema_name == "ISROnly"
    assert isr_only.map_key
    later = Forms.spec.field("later")
    assert not later.is_nullable(1)
    assert later.is_nullable(2)
    assert not Forms.spec.field("client").flexible


def test_a_blank_has_defaults_and_zero_values() -> None:
    assert blank(Nested.spec) == Nested(topics=[], place=Place())
    assert blank(Topic.spec) == Topic(name="", topic_id=ZERO_UUID, partitions=[])


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (WrongName, "WrongName: 'Int33' is neither a type of the protocol nor a struct"),
        (WrongShape, "is no type of the protocol"),
        (WrongDefault, "a default is given as field"),
    ],
)
def test_a_wrong_declaration_is_told_with_its_name(cls: type[Struct], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        cls.spec  # noqa: B018


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="since_version"):
        field(since_version=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="Odd: a struct has no option"):

        class Odd(Data, versions="0", colour="red"):
            """An unknown option."""

    with pytest.raises(TypeError, match="versions"):

        class Struct2(Struct, versions="0"):
            """Only messages have versions."""


def test_field_without_options_is_still_a_field() -> None:
    assert isinstance(field(), Field)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0", Versions(0, 0)),
        ("3-13", Versions(3, 13)),
        ("12+", Versions(12, 32767)),
        ("none", NO_VERSIONS),
    ],
)
def test_ranges_of_versions(text: str, versions: Versions) -> None:
    assert parse_versions(text) == versions
    assert str(versions) == text


@pytest.mark.parametrize("text", ["", "-", "3-", "-3", "5-3", "a", "1-b", "++", "-1+"])
def test_text_that_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range of versions"):
        parse_versions(text)


def test_versions_know_their_members() -> None:
    assert 3 in Versions(3, 5)
    assert 6 not in Versions(3, 5)
    assert list(Versions(3, 5).all()) == [3, 4, 5]
    assert list(NO_VERSIONS.all()) == []
    assert Versions(3, 5).common(Versions(4, 9)) == Versions(4, 5)
    assert not Versions(3, 5).common(Versions(6, 9))
