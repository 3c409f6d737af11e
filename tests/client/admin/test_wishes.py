"""What an admin asks for beside names and values reaches the cluster, and has its effect there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.client import (
    AclOperation,
    Admin,
    ConfigSource,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    Resource,
    ResourceType,
    TopicPartition,
)
from moldau.client.admin.configs import ConfigEntry
from moldau.client.base.offsets import LATEST
from moldau.ids import ZERO_UUID
from moldau.protocol.acl_operations import operations_in
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.protocol.negotiation import supported_versions
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from moldau.testing import EmbeddedBroker
from tests.client import scripted
from tests.client.choices import GroupProtocol
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.runtime.arena import simulate

T0 = TopicPartition("t", 0)
TOPIC = Resource(ResourceType.TOPIC, "t")
LISTED = "cleanup.policy"


def on_a_broker(main: Callable[[Admin], Awaitable[None]]) -> None:
    """Runs it with an admin of a broker, in simulated time."""

    async def scenario(runtime: Runtime) -> None:
        async with (
            EmbeddedBroker(runtime=runtime) as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers, runtime=runtime) as admin,
        ):
            await main(admin)

    simulate(scenario)


def asked(
    main: Callable[[Admin], Awaitable[object]],
    kind: type[Request],
    answer: Callable[[Any], Response] | None = None,
) -> list[Any]:
    """The requests of that kind that a scripted cluster got of it; `answer` is for those that it
    does not know by itself."""

    async def whole(runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            await main(admin)

    with ClientWorld() as world, pytest.MonkeyPatch.context() as patch:
        world.cluster.add_topic("t", [1])
        if answer is not None:
            key = kind.spec.key
            assert key is not None
            world.cluster.served[key] = supported_versions("broker")[key]
            answers: Any = scripted._ANSWERS
            patch.setitem(answers, kind, lambda cluster, node_id, request, code: answer(request))
        world.run_client(whole)
        return [each for _, each in world.cluster.requests if type(each) is kind]


def test_items_are_appended_to_a_list_and_subtracted_from_it() -> None:
    async def value(admin: Admin) -> str | None:
        (entry,) = await admin.describe_configs(TOPIC, names=[LISTED])
        return entry.value

    async def main(admin: Admin) -> None:
        await admin.create_topic(NewTopic("t", 1, 1, configs={LISTED: "delete"}))
        await admin.alter_configs(TOPIC, append={LISTED: "compact"})
        assert await value(admin) == "delete,compact"
        await admin.alter_configs(TOPIC, subtract={LISTED: "delete"})
        assert await value(admin) == "compact"

    on_a_broker(main)


def test_a_topic_is_tried_without_being_made() -> None:
    async def main(admin: Admin) -> None:
        made = (await admin.create_topics([NewTopic("t", 3, 1)], validate_only=True))["t"]
        assert not isinstance(made, KafkaError)
        assert await admin.list_topics() == []

    on_a_broker(main)


@pytest.mark.parametrize("dry_run", [True, False])
def test_features_are_tried_without_being_changed(dry_run: bool) -> None:
    done = UpdateFeaturesResponse(throttle_time_ms=0, error_code=0, error_message=None, results=[])
    (request,) = asked(
        lambda admin: admin.update_features({"x": 2}, dry_run=dry_run),
        UpdateFeaturesRequest,
        lambda request: done,
    )
    assert request.validate_only is dry_run


@pytest.mark.parametrize("where", [TopicPartition("typo", 0), TopicPartition("t", 7)])
def test_producers_of_a_partition_that_there_is_not_are_not_waited_for(
    where: TopicPartition,
) -> None:
    """One that has come into being since is found."""

    async def main(admin: Admin) -> None:
        await admin.create_topic(NewTopic("t", 1, 1))
        begun = asyncio.get_running_loop().time()
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION") as caught:
            await admin.describe_producers(where)
        assert caught.value.context["topic"] == where.topic
        assert asyncio.get_running_loop().time() - begun < 1
        if where.topic == "typo":
            await admin.create_topic(NewTopic("typo", 8, 1))
        else:
            await admin.create_partitions("t", 8)
        assert await admin.describe_producers(where) == []

    on_a_broker(main)


@pytest.mark.parametrize("require_stable", [True, False])
def test_offsets_are_waited_for_where_a_transaction_may_change_them(require_stable: bool) -> None:
    (request,) = asked(
        lambda admin: admin.group_offsets("g", require_stable=require_stable), OffsetFetchRequest
    )
    assert request.require_stable is require_stable


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_end_of_a_log_may_be_that_of_what_is_committed(is_committed: bool) -> None:
    (request,) = asked(
        lambda admin: admin.list_offsets({T0: LATEST}, is_committed=is_committed),
        ListOffsetsRequest,
    )
    assert request.isolation_level == int(is_committed)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("too slow", "member was removed by an admin: too slow"),
        ("", "member was removed by an admin"),
    ],
)
def test_who_is_removed_is_told_why(reason: str, told: str) -> None:
    (request,) = asked(
        lambda admin: admin.remove_members(
            "g", member_ids=["m"], instance_ids=["i"], reason=reason
        ),
        LeaveGroupRequest,
    )
    assert [each.reason for each in request.members] == [told, told]


def test_what_is_done_is_not_asked_for_again_when_something_else_is() -> None:
    """A topic that is deleted twice would be told to be unknown."""
    late = ["b"]

    def answer(request: DeleteTopicsRequest) -> Response:
        return DeleteTopicsResponse(
            throttle_time_ms=0, responses=[_deleted(each.name, late) for each in request.topics]
        )

    async def main(admin: Admin) -> None:
        assert await admin.delete_topics(["a", "b"]) == {"a": None, "b": None}

    requests = asked(main, DeleteTopicsRequest, answer)
    assert [[each.name for each in request.topics] for request in requests] == [["a", "b"], ["b"]]


def _deleted(name: str | None, late: list[str]) -> DeletableTopicResult:
    """Those that are late are in time when they are asked for again."""
    code = 0
    if name in late:
        late.remove(name)
        code = ErrorCode.REQUEST_TIMED_OUT
    return DeletableTopicResult(name=name, topic_id=ZERO_UUID, error_code=code, error_message=None)


@pytest.mark.parametrize(
    ("source", "is_default", "is_dynamic"),
    [
        (ConfigSource.DEFAULT, True, False),
        (ConfigSource.STATIC_BROKER, False, False),
        (ConfigSource.TOPIC, False, True),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, False, True),
    ],
)
def test_what_stands_in_a_brokers_file_is_no_default(
    source: ConfigSource, is_default: bool, is_dynamic: bool
) -> None:
    entry = ConfigEntry("a", "1", source, False, False, (), None)
    assert (entry.is_default, entry.is_dynamic) == (is_default, is_dynamic)


OF_TOPICS = frozenset(
    ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
)
OF_GROUPS = frozenset(["READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"])
OF_CLUSTERS = frozenset(
    [
        "CREATE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ]
)


def names(operations: frozenset[AclOperation] | None) -> frozenset[str] | None:
    return None if operations is None else frozenset(each.name for each in operations)


def test_what_may_be_done_with_topics_and_the_cluster_is_told_to_who_asks() -> None:
    async def main(admin: Admin) -> None:
        made = await admin.create_topic(NewTopic("t", 1, 1))
        for asks in (True, False):
            by_name = (await admin.describe_topics(["t"], authorized_operations=asks))["t"]
            found = await admin.describe_topics_by_id([made.topic_id], authorized_operations=asks)
            for topic in (by_name, found[made.topic_id]):
                assert not isinstance(topic, KafkaError)
                assert names(topic.authorized_operations) == (OF_TOPICS if asks else None)
            whole = await admin.describe_cluster(authorized_operations=asks)
            assert names(whole.authorized_operations) == (OF_CLUSTERS if asks else None)

    on_a_broker(main)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_may_be_done_with_groups_is_told_to_who_asks(protocol: GroupProtocol) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with (
            EmbeddedBroker(runtime=runtime) as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers, runtime=runtime) as admin,
            Consumer(
                bootstrap_servers=broker.bootstrap_servers,
                runtime=runtime,
                group_id="g",
                group_protocol=protocol,
            ) as reader,
        ):
            await admin.create_topic(NewTopic("t", 1, 1))
            await reader.subscribe(["t"])
            await reader.poll(5)
            for asks in (True, False):
                group = await admin.describe_group("g", authorized_operations=asks)
                described = await admin.describe_groups(["g"], authorized_operations=asks)
                assert described["g"] == group
                assert group.type == protocol
                assert names(group.authorized_operations) == (OF_GROUPS if asks else None)

    simulate(scenario)


def test_each_operation_has_the_bit_of_its_number() -> None:
    assert operations_in(-(2**31)) is None
    assert operations_in(0) == frozenset()
    assert names(operations_in(1 << 3 | 1 << 15)) == frozenset(["READ", "TWO_PHASE_COMMIT"])
    assert names(operations_in(1 << 8 | 1 << 30)) == frozenset(["DESCRIBE", "UNKNOWN"])


def test_brokers_that_are_too_old_to_tell_what_may_be_done_are_not_misread() -> None:
    async def main(runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            whole = await admin.describe_cluster()
            assert (whole.cluster_id, len(whole.brokers)) == ("scripted", 2)
            assert whole.authorized_operations is None
            for call in (
                admin.describe_cluster(authorized_operations=True),
                admin.describe_topics(["t"], authorized_operations=True),
            ):
                with pytest.raises(KafkaError) as caught:
                    await call
                assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.served[3] = Versions(1, 7)
        world.cluster.served.pop(60, None)
        world.run_client(main)
