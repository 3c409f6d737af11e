"""What is of the wrong kind is refused before anything happens, in words that lead on."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import FunctionType
from typing import Any, TypeVar, cast

import pytest

from moldau import client
from moldau.client import Admin, NewTopic, OffsetAndMetadata, Producer, Resource, TopicPartition
from moldau.client.admin.configs import ResourceType
from moldau.client.admin.topics import TO_THE_END
from moldau.client.base.arguments import known_names, offsets_to_store, partition_of, several
from moldau.client.group.protocols import GROUP_STATES
from moldau.client.producer.record import ProducerInterceptor, ProducerRecord, checked
from moldau.client.producer.sync.shared_producer import SharedProducer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Topic
from moldau.protocol.messages.delete_records import DeleteRecordsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.runtime import Runtime
from moldau.values.failures import SerializationFailed
from tests.client.consumer.numbered_records import consumer
from tests.client.world import BOOTSTRAP, ClientWorld

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("name", client.__all__)
def test_every_public_name_can_be_asked_for_help(name: str) -> None:
    """An alias would show what `typing` says of itself."""
    public = getattr(client, name)
    if name in {"EARLIEST", "LATEST"}:
        assert isinstance(public, int)
        return
    assert isinstance(public, type | FunctionType | TypeVar)
    assert public.__doc__


async def refused(calls: dict[str, Awaitable[object]], kind: Any = TypeError) -> None:
    """Each raises that, in these words."""
    for words, call in calls.items():
        with pytest.raises(kind, match=re.escape(words)):
            await call


def with_producer(main: Callable[[Any], Awaitable[None]], **options: Any) -> list[bytes | None]:
    """Runs it with a producer, once before its topic is known and once after; what is stored."""

    async def whole(runtime: Runtime) -> None:
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as sender:
            await main(sender)
            await sender.send("t", b"the topic is known and a batch open", partition=0)
            await main(sender)

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        world.run_client(whole)
        return log.values()[1:]


# One record


def test_what_send_does_not_know_is_refused_by_its_name() -> None:
    async def main(sender: Any) -> None:
        await refused(
            {
                "send has no argument 'partion': it has key, headers, partition, timestamp_ms, "
                "on_delivery": sender.send("t", b"v", partion=2),
                "no argument 'timestamp'": sender.send("t", b"v", timestamp=1),
                "no argument 'callback'": sender.send("t", b"v", key=b"k", callback=print),
                "'nope'": sender.send("t", b"v", timestamp_ms=1, nope=None),
            }
        )

    assert with_producer(main) == []


def test_what_cannot_be_in_a_record_is_named_with_what_came() -> None:
    async def nothing(*_: object) -> None:
        pass

    async def main(sender: Any) -> None:
        for extra in ({}, {"partition": 0}):
            await refused(
                {
                    "headers must be a list or tuple of pairs of str and bytes, as [('trace', b'1')"
                    "], not dict {'a': b'b'}": sender.send("t", b"v", headers={"a": b"b"}, **extra),
                    "header value must be bytes or None, not str, in list": sender.send(
                        "t", b"v", headers=[("a", "b")], **extra
                    ),
                    "timestamp_ms must be an int, milliseconds since 1970, not float 1.5": (
                        sender.send("t", b"v", timestamp_ms=1.5, **extra)
                    ),
                    "a topic's name is a str, not bytes b't'": sender.send(b"t", b"v", **extra),
                    "a topic's name is a str, not None": sender.send(None, b"v", **extra),
                    "a topic's name is a str, not list ['t']": sender.send(["t"], b"v", **extra),
                    "on_delivery is called and not awaited": sender.send(
                        "t", b"v", on_delivery=nothing, **extra
                    ),
                    "on_delivery is called with (sent, error): a function, not int 3": (
                        sender.send("t", b"v", on_delivery=3, **extra)
                    ),
                }
            )
        await refused(
            {
                "partition must be an int or None, not str '0'": sender.send(
                    "t", b"v", partition="0"
                ),
                "partition must be an int or None, not bool True": sender.send(
                    "t", b"v", partition=True
                ),
                "a topic's name is a str, not bytes": sender.partitions(b"t"),
            }
        )

    assert with_producer(main) == []


def test_advice_about_serializers_is_for_keys_and_values_alone() -> None:
    async def main(sender: Any) -> None:
        for given in ({"headers": {"a": b"b"}}, {"timestamp_ms": 1.5}):
            with pytest.raises(TypeError) as caught:
                await sender.send("t", b"v", **given)
            assert "serializer" not in str(caught.value)
        await refused({"value.serializer": sender.send("t", "text")})

    assert with_producer(main) == []


_NO_TIME = {
    -1: "timestamp_ms must be milliseconds since 1970, from 0 to 2**63 - 1, or None for now, not "
    "int -1",
    2**63: "from 0 to 2**63 - 1, or None for now, not int 9223372036854775808",
    True: "timestamp_ms must be an int, milliseconds since 1970, not bool True",
    "1": "timestamp_ms must be an int, milliseconds since 1970, not str '1'",
}
_NO_TIMES: Any = (ValueError, TypeError)


@pytest.mark.parametrize("stamp", _NO_TIME)
def test_what_is_no_timestamp_is_refused_before_anything_is_sent(stamp: Any) -> None:
    words = _NO_TIME[stamp]
    of_all = words.replace("timestamp_ms", "timestamps_ms")
    of_one = words.replace("timestamp_ms", "timestamps_ms[2]")

    async def main(sender: Any) -> None:
        values = [b"v"] * 3
        await refused(
            {words: sender.send("t", b"v", timestamp_ms=stamp, partition=0)},
            _NO_TIMES,
        )
        for more in ({}, {"keys": values}, {"partition": [0, None, 0]}):
            await refused(
                {of_one: sender.send_many("t", values, timestamps_ms=[5, None, stamp], **more)},
                _NO_TIMES,
            )
        if not isinstance(stamp, str):
            await refused({of_all: sender.send_many("t", values, timestamps_ms=stamp)}, _NO_TIMES)

    assert with_producer(main) == []


def test_the_first_and_the_last_timestamp_there_are_pass() -> None:
    stamps = [0, 2**63 - 1, None, HTTPStatus.OK]

    async def main(sender: Any) -> None:
        await sender.send_many("t", [b"m"] * 4, timestamps_ms=stamps)
        for stamp in stamps:
            await sender.send("t", b"s", timestamp_ms=stamp)

    assert with_producer(main).count(b"m") == 7  # the first is cut off


def test_a_timestamp_that_an_interceptor_returns_and_that_is_none_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Shifts(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return replace(record, timestamp_ms=-5)

    async def main(sender: Any) -> None:
        await sender.send("t", b"v", timestamp_ms=7)

    assert with_producer(main, interceptors=[Shifts()])[1:] == [b"v"]
    assert "the timestamp_ms that Shifts.on_send returns must be" in caplog.text


class Nowhere:
    """A partitioner by hand: where no partition is given."""

    def partition(self, record: ProducerRecord, key: Any, value: Any, topic: Topic) -> int:
        return 0


@pytest.mark.parametrize("options", [{}, {"partitioner_class": Nowhere()}])
def test_a_column_of_partitions_is_judged_before_its_first_record(options: Any) -> None:
    async def main(sender: Any) -> None:
        await refused(
            {
                "partition[1] must be an int or None, not str 'x'": sender.send_many(
                    "t", [b"a", b"b"], partition=[0, "x"]
                )
            }
        )
        for wrong in (-1, 3):
            with pytest.raises(KafkaError) as caught:
                await sender.send_many("t", [b"a", b"b"], partition=[0, wrong])
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert caught.value.context["partition"] == wrong
            assert caught.value.context["accepted"] == 0

    assert with_producer(main, **options) == []


def test_threads_hear_the_same() -> None:
    async def main(runtime: Runtime) -> None:
        async with SharedProducer(runtime=runtime, bootstrap_servers=BOOTSTRAP) as sender:
            await sender.send("t", b"the topic is known")
            assert sender.append(cast(Any, ["t"]), b"v", None, ()) is None
            record = ProducerRecord("t", b"v", None, cast(Any, {"a": b"b"}))
            with pytest.raises(TypeError, match="headers must be a list"):
                sender.send_here(record, {}, cast(Any, None))
            assert sender.append("t", b"v", None, _NOT_TEXT) is None
            record = ProducerRecord("t", b"v", None, _NOT_TEXT)
            with pytest.raises(SerializationFailed, match="a header's key cannot be sent"):
                sender.send_here(record, {}, cast(Any, None))
        stamp: Any = 1.5
        with pytest.raises(TypeError, match="timestamp_ms must be an int"):
            checked(ProducerRecord("t", b"v", timestamp_ms=stamp), {})

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


_FIRST_ALONE = {"accepted": 1, "records": 2, "at": 1, "left": (1,)}
_NOT_TEXT: Any = [("trace", b"1"), ("\ud800", b"2")]


@pytest.mark.parametrize(
    "options", [{"headers": _NOT_TEXT}, {"headers": _NOT_TEXT, "partition": 0}]
)
def test_a_header_that_utf_8_cannot_hold_is_named_with_its_topic(options: Any) -> None:
    """Whether a batch is open or not, and however the record is sent."""

    async def main(sender: Any) -> None:
        many = {**options, "headers": [(), _NOT_TEXT]}
        for call, accepted in (
            (sender.send("t", b"v", **options), {}),
            (sender.send("t", b"v", key=b"k", **options), {}),
            (sender.send_many("t", [b"first", b"v"], **many), _FIRST_ALONE),
        ):
            with pytest.raises(SerializationFailed, match="lone surrogates; leave them out") as it:
                await call
            assert it.value.context == {"topic": "t", "header": r"str '\ud800'", **accepted}
            await sender.flush()

    assert with_producer(main) == [b"the topic is known and a batch open", b"first"]


# Many records


def test_columns_of_other_lengths_are_named() -> None:
    async def main(sender: Any) -> None:
        many = partial_many(sender)
        await refused(
            {
                "values and keys must be of one length, not 2 and 1": many(keys=[b"a"]),
                "values and headers must be of one length, not 2 and 3": many(headers=[(), (), ()]),
                "values and timestamps_ms must be of one length, not 2 and 0": many(
                    timestamps_ms=[]
                ),
                "values and partition must be of one length, not 2 and 1": many(partition=[0]),
            },
            ValueError,
        )

    assert with_producer(main) == []


def partial_many(sender: Any) -> Callable[..., Awaitable[object]]:
    return partial(sender.send_many, "t", [b"a", b"b"])


def test_what_is_no_column_is_named() -> None:
    async def main(sender: Any) -> None:
        many = partial_many(sender)
        await refused(
            {
                "a topic's name is a str, not bytes": sender.send_many(b"t", [b"v"]),
                "a topic's name is a str, not list": sender.send_many(["t"], [b"v"]),
                "values must be a list with one for each, not bytes b'ab'": (
                    sender.send_many("t", b"ab")
                ),
                "values must be a list with one for each, not generator": (
                    sender.send_many("t", (b"%d" % each for each in range(2)))
                ),
                "keys must be a list with one for each, not str 'ab'": many(keys="ab"),
                "keys must be a list with one for each, not dict": many(keys={b"k": b"v"}),
                "keys must be a list with one for each, not set": many(keys={b"k"}),
                "partition must be one for all records, or a list with one for each, not str '0'": (
                    many(partition="0")
                ),
                "timestamps_ms must be one for all records, or a list with one for each, not "
                "float": many(timestamps_ms=1.5),
                "partition[1] must be an int or None, not str '1'": many(partition=[0, "1"]),
                "timestamps_ms[0] must be an int, milliseconds since 1970, not float 1.5": many(
                    timestamps_ms=[1.5, 2]
                ),
                "headers must be a list or tuple": many(headers=[{"a": b"b"}, ()]),
            }
        )

    assert with_producer(main) == []


# Partitioners


class Odd:
    """A partitioner with a bug."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: Topic, /
    ) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [None, "1"])
def test_a_partitioner_that_gives_no_number_is_named(answer: object) -> None:
    async def main(sender: Any) -> None:
        words = "Odd.partition must give the number of a partition, an int, not"
        await refused({words: sender.send("t", b"v")})

    assert with_producer(main, partitioner_class=Odd(answer)) == []


# Names, partitions and offsets that an admin takes


def with_admin(main: Callable[[Any], Awaitable[None]]) -> ClientWorld:
    async def whole(runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            world.cluster.requests.clear()
            await main(admin)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(whole)
    return world


def test_a_str_is_not_many_names() -> None:
    async def main(admin: Any) -> None:
        many = {
            "topics": (admin.describe_topics, admin.delete_topics),
            "new topics": (admin.create_topics,),
            "topic ids": (admin.describe_topics_by_id, admin.delete_topics_by_id),
            "groups": (admin.describe_groups, admin.delete_groups, admin.groups_progress),
            "partitions": (
                admin.elect_leaders,
                admin.list_partition_reassignments,
                admin.led_partitions,
                lambda given: admin.group_offsets("g", given),
                lambda given: admin.delete_group_offsets("g", given),
            ),
            "brokers": (admin.describe_log_dirs,),
            "types": (
                admin.list_config_resources,
                lambda given: admin.list_groups(types=given),
            ),
            "states": (lambda given: admin.list_groups(states=given),),
            "static members": (lambda given: admin.remove_members("g", instance_ids=given),),
            "members": (lambda given: admin.remove_members("g", member_ids=given),),
            "settings": (
                lambda given: admin.describe_configs(
                    Resource(ResourceType.TOPIC, "t"), names=given
                ),
                lambda given: admin.alter_configs(Resource(ResourceType.TOPIC, "t"), unset=given),
            ),
        }
        for what, methods in many.items():
            for method in methods:
                words = f"{what} are given as a list, ['ab'], not as str 'ab'"
                await refused({words: method("ab")})
        await refused(
            {
                "there is delete_topic": admin.delete_topics("ab"),
                "there is create_topic": admin.create_topics("ab"),
                "there is delete_group": admin.delete_groups("ab"),
                "there is describe_group": admin.describe_groups("ab"),
                "topics are given as a list, not as None": admin.delete_topics(None),
            }
        )

    assert with_admin(main).cluster.requests == []


def test_names_are_str() -> None:
    async def main(admin: Any) -> None:
        names: list[Any] = [b"t", None, 3]
        for name in names:
            topic = (
                f"a topic's name is a str, not {'None' if name is None else type(name).__name__}"
            )
            for call in (
                admin.delete_topic(name),
                admin.describe_topics([name]),
                admin.create_topic(NewTopic(name)),
                admin.create_partitions(name, 3),
                admin.partitions(name),
                admin.eligible_replicas(name),
                admin.describe_producers(TopicPartition(name, 0)),
                admin.delete_records({(name, 0): 1}),
            ):
                await refused({topic: call})
            group = topic.replace("topic", "group")
            for call in (
                admin.describe_group(name),
                admin.delete_group(name),
                admin.group_offsets(name),
                admin.group_progress(name),
                admin.alter_group_offsets(name, {T0: 1}),
                admin.remove_members(name, member_ids=["m"]),
            ):
                await refused({group: call})
        resource = Resource(ResourceType.BROKER, cast(Any, 1))
        await refused(
            {
                "a resource's name is a str, not int 1": admin.describe_configs(resource),
                "a topic to be made is a NewTopic, not 't'": admin.create_topics(["t"]),
                "the value of retention.ms is a str, not int 5": (
                    admin.create_topic(NewTopic("u", configs={"retention.ms": 5}))  # type: ignore[dict-item]
                ),
                "settings with their values are given as a dict, not as None": (
                    admin.create_topic(NewTopic("u", configs=None))  # type: ignore[arg-type]
                ),
            }
        )

    assert with_admin(main).cluster.requests == []


@pytest.mark.parametrize("given", ["t", ("topic", "t"), None, 3, {"t": 1}])
def test_what_is_no_resource_says_what_one_is(given: Any) -> None:
    words = "what has settings is a Resource, as Resource(ResourceType.TOPIC, 'orders'), not "

    async def main(admin: Any) -> None:
        kind = "None" if given is None else type(given).__name__
        await refused({f"{words}{kind}": admin.describe_configs(given)})
        await refused({f"{words}{kind}": admin.alter_configs(given, set_to={"x": "1"})})

    assert with_admin(main).cluster.requests == []


def test_what_is_no_setting_no_feature_and_no_replica_is_told() -> None:
    topic = Resource(ResourceType.TOPIC, "t")

    async def main(admin: Any) -> None:
        for kind in (2, "topic", None):
            await refused(
                {
                    "a resource's type is a ResourceType, not": admin.describe_configs(
                        Resource(cast(Any, kind), "t")
                    )
                }
            )
        await refused(
            {
                "a resource's type is a ResourceType, not str 'topic'": (
                    admin.list_config_resources(["topic"])
                ),
                "settings with their values are given as a dict, not as list ['a']": (
                    admin.alter_configs(topic, set_to=["a"])
                ),
                "the value of retention.ms is a str, not int 5": admin.alter_configs(
                    topic, append={"retention.ms": 5}
                ),
                "a setting's name is a str, not int 1": admin.alter_configs(topic, set_to={1: "1"}),
                "features with their values are given as a dict, not as str 'a'": (
                    admin.update_features("a")
                ),
                "a feature's level is an int, not str '1'": admin.update_features({"a": "1"}),
                "replicas with their directories are given as a dict, not as list": (
                    admin.alter_replica_log_dirs([(T0, 1)])
                ),
                "a replica is (partition, broker), not tuple ('t', 0, 1)": (
                    admin.alter_replica_log_dirs({("t", 0, 1): "/data"})
                ),
                "a partition is a TopicPartition, or (topic, number), not str 't'": (
                    admin.alter_replica_log_dirs({("t", 0): "/data"})
                ),
                "a broker's id is an int, not str 'b'": (
                    admin.alter_replica_log_dirs({(T0, "b"): "/data"})
                ),
                "a replica's directory is a str, not None": (
                    admin.alter_replica_log_dirs({(T0, 1): None})
                ),
            }
        )

    assert with_admin(main).cluster.requests == []


def test_a_topic_is_not_made_twice_in_one_call() -> None:
    """The broker would be told of one of them alone, and nobody of that."""

    async def main(admin: Any) -> None:
        twice = [NewTopic("u", 1), NewTopic("v", 1), NewTopic("u", 5)]
        words = "the topic 'u' is to be made twice"
        await refused({words: admin.create_topics(twice)}, ValueError)

    assert with_admin(main).cluster.requests == []


def test_states_and_types_of_groups_are_known_however_they_are_written() -> None:
    """A broker takes any word, and finds nothing that is in a state of that name."""

    async def main(admin: Any) -> None:
        await refused(
            {
                "'Foo' is no state of a group: PreparingRebalance, ": (
                    admin.list_groups(states=["Foo"])
                ),
                "'old' is no type of a group: classic, consumer": admin.list_groups(types=["old"]),
            },
            ValueError,
        )

    assert with_admin(main).cluster.requests == []
    assert known_names(["stable", " EMPTY"], "state", GROUP_STATES) == ["Stable", "Empty"]


def test_a_plain_pair_is_a_partition() -> None:
    async def main(admin: Admin) -> None:
        """Typed, so that what may be given is also what a type checker lets through."""
        await admin.alter_group_offsets("g", {("t", 0): 3})
        assert await admin.group_offsets("g", [("t", 0)]) == {T0: OffsetAndMetadata(3)}
        assert (await admin.list_offsets({("t", 0): -2}))[T0].offset == 0
        assert await admin.led_partitions([("t", 0)]) == [T0]

    assert with_admin(main).cluster.groups.offsets["g"] == {("t", 0): 3}


@pytest.mark.parametrize(
    "pair", ["t-0", ("t",), ("t", "0"), ("t", 0.0), ("t", True), (b"t", 0), 3, None]
)
def test_what_is_no_partition_says_what_one_is(pair: Any) -> None:
    with pytest.raises(TypeError, match=r"a partition|a topic's name"):
        partition_of(pair)


# Offsets


@pytest.mark.parametrize("offset", [-1, -5, OffsetAndMetadata(-2)])
def test_offsets_below_zero_are_refused_by_admin_and_consumer_alike(offset: Any) -> None:
    number = offset if isinstance(offset, int) else offset.offset
    words = f"an offset to commit is not negative (topic='t', partition=0, offset={number})"

    async def main(admin: Any) -> None:
        await admin.alter_group_offsets("g", {T0: 3})
        await refused({words: admin.alter_group_offsets("g", {T0: offset})}, ValueError)
        assert await admin.group_offsets("g", [T0]) == {T0: OffsetAndMetadata(3)}

    async def read(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g") as reader:
            await refused({words: reader.commit({T0: offset})}, ValueError)

    world = with_admin(main)
    assert sum(isinstance(each, OffsetCommitRequest) for _, each in world.cluster.requests) == 1
    with ClientWorld() as other:
        other.run_client(read)


@pytest.mark.parametrize("offset", ["3", 3.0, True, None, (3, "note")])
def test_what_is_no_offset_is_named_with_its_partition(offset: Any) -> None:
    words = r"an offset to commit is an int, not .*topic='t', partition=0"
    with pytest.raises(TypeError, match=words):
        offsets_to_store({T0: offset})


_TO_DELETE = "an offset to delete up to is {}"
_NO_OFFSETS: dict[Any, str] = {
    2**63: "from -1 to 2**63 - 1, not int 9223372036854775808 (topic='t', partition=0)",
    -2: "from -1 to 2**63 - 1, not int -2 (topic='t', partition=0)",
    "3": "an int, not str '3' (topic='t', partition=0, offset='3')",
}


@pytest.mark.parametrize("offset", _NO_OFFSETS)
def test_what_is_no_offset_to_delete_up_to_is_named_with_its_partition(offset: Any) -> None:
    words = _TO_DELETE.format(_NO_OFFSETS[offset])

    async def main(admin: Any) -> None:
        await refused({words: admin.delete_records({T0: offset})}, (ValueError, TypeError))

    assert with_admin(main).cluster.requests == []


@pytest.mark.parametrize("offset", [0, TO_THE_END, 2**63 - 1])
def test_what_can_be_an_offset_to_delete_up_to_is_asked_for(offset: int) -> None:
    async def main(admin: Any) -> None:
        await admin.delete_records({T0: offset})

    asked = [each for _, each in with_admin(main).cluster.requests]
    (request,) = [each for each in asked if isinstance(each, DeleteRecordsRequest)]
    assert request.topics[0].partitions[0].offset == offset


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1, "3"])
def test_what_is_no_time_to_look_for_is_named_with_its_partition(time: Any) -> None:
    async def main(admin: Any) -> None:
        words = "the timestamp for t-0 is "
        await refused({words: admin.list_offsets({T0: time})}, (ValueError, TypeError))

    assert with_admin(main).cluster.requests == []


# What consumers are asked


_NO_SECONDS: dict[Any, str] = {
    "1": "timeout_s is a number of seconds, not str '1'",
    True: "timeout_s is a number of seconds, not bool True",
    int: "timeout_s is a number of seconds, not type <class 'int'>",
    -1: "timeout_s is not negative, as int -1 is",
    float("nan"): "timeout_s is not negative, as float nan is",
}


def with_consumer(main: Callable[[Any], Awaitable[None]], **options: Any) -> ClientWorld:
    """Runs it with a consumer of a group that has a partition assigned."""

    async def whole(runtime: Runtime) -> None:
        async with consumer(runtime, group_id="g", **options) as reader:
            reader.assign([T0])
            await main(reader)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(whole)
        return world


@pytest.mark.parametrize("timeout_s", _NO_SECONDS)
def test_what_is_no_time_is_refused_whoever_is_to_wait(timeout_s: Any) -> None:
    async def main(reader: Any) -> None:
        for call in (
            reader.commit({T0: 1}, timeout_s=timeout_s),
            reader.commit(timeout_s=timeout_s),
            reader.committed(timeout_s=timeout_s),
            reader.committed([], timeout_s=timeout_s),
            reader.list_topics(timeout_s=timeout_s),
            reader.partitions("t", timeout_s=timeout_s),
            reader.partitions(timeout_s=timeout_s),
            reader._cluster.retry(reader._cluster.refresh, timeout_s=timeout_s),
        ):
            await refused({_NO_SECONDS[timeout_s]: call}, (TypeError, ValueError))

    assert with_consumer(main).cluster.groups.offsets == {}


@pytest.mark.parametrize("given", ["no", 0, 1, [], float("nan")])
def test_what_is_neither_yes_nor_no_is_refused_and_nothing_is_closed(given: Any) -> None:
    words = "{} is True or False, not "

    async def main(reader: Any) -> None:
        await refused(
            {
                words.format("leave_group"): reader.aclose(leave_group=given),
                words.format("internal"): reader.list_topics(internal=given),
            }
        )
        assert await reader.poll() == []

    async def send(sender: Any) -> None:
        await refused({words.format("abort"): sender.aclose(abort=given)})
        await (await sender.send("t", b"v"))

    with_consumer(main)
    assert len(with_producer(send)) == 2


def test_ids_are_asked_for_of_partitions() -> None:
    async def main(reader: Any) -> None:
        junk: Any = (None, 3, "t", b"t", ["t"], [None], [[]], {"t": 0})
        for given in junk:
            with pytest.raises(TypeError, match=r"a partition is|partitions are given"):
                reader.topic_ids(given)
        assert reader.topic_ids([("t", 0)]).keys() == {T0}

    with_consumer(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("pattern", [{}, [], 3, True, b"t", re.compile(b"t")])
def test_what_is_no_pattern_is_refused(pattern: Any, protocol: str) -> None:
    async def main(reader: Any) -> None:
        await refused({"a pattern is ": reader.subscribe(pattern=pattern)})

    with_consumer(main, group_protocol=protocol)


def test_a_pattern_that_no_coordinator_can_be_told_is_refused() -> None:
    async def main(reader: Any) -> None:
        words = "a pattern is text of at most 32767 bytes in UTF-8"
        await refused({words: reader.subscribe(pattern="\ud800")}, ValueError)

    with_consumer(main, group_protocol="consumer")


def test_errors_of_what_makes_the_many_are_its_own() -> None:
    class Fails:
        def __iter__(self) -> Any:
            raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        several(Fails(), "topic")
