"""Metadata, reconnecting and retrying, among scripted brokers; and what is kept of metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from moldau.client import Admin, ClientClosed, Consumer, Producer, TopicPartition
from moldau.client.base.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.link.metadata import Metadata
from moldau.protocol.declare import Request
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.versions import Versions
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from tests.client.producer.simulated_sender import metadata
from tests.client.scripted import ScriptedCluster
from tests.client.world import BOOTSTRAP, ClientWorld
from tests.link.scripted_cluster import cluster

T0 = TopicPartition("t", 0)


def answer(epoch: int, leader: int, topic_id: int = 1) -> MetadataResponse:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
    )
    topic = MetadataResponseTopic(
        error_code=0, name="t", topic_id=topic_id.to_bytes(16, "big"), partitions=[partition]
    )
    return MetadataResponse(brokers=[], topics=[topic])


def test_a_stale_answer_does_not_undo_an_election() -> None:
    known = Metadata()
    known.update(answer(5, 1))
    known.update(answer(4, 2))
    assert known.leader_of(T0) == 1
    known.update(answer(6, 2))
    assert known.leader_of(T0) == 2


def test_a_topic_that_came_back_begins_anew() -> None:
    known = Metadata()
    known.update(answer(5, 1, topic_id=1))
    known.update(answer(0, 2, topic_id=2))
    assert known.leader_of(T0) == 2
    assert known.name_of((1).to_bytes(16, "big")) is None
    assert known.name_of((2).to_bytes(16, "big")) == "t"


def test_a_broker_may_name_the_new_leader_in_its_answer() -> None:
    known = metadata((1,))
    assert not known.moved(T0, 2, 0, None), "no newer epoch"
    assert not known.moved(T0, 9, 1, None), "nobody knows where that is"
    assert known.moved(T0, 9, 1, Address("b9", 9092))
    assert (known.leader_of(T0), known.brokers[9].address.host) == (9, "b9")


def test_backoff_doubles_up_to_its_bound_with_jitter() -> None:
    backoff, random = Backoff(100, 1000), Random(1)
    waits = [backoff.wait_s(failures, random) for failures in range(1, 8)]
    for wait, exact in zip(waits, (0.1, 0.2, 0.4, 0.8, 1, 1, 1), strict=True):
        assert 0.8 * exact <= wait <= 1.2 * exact
    assert len({backoff.wait_s(1, random) for _ in range(20)}) > 10
    assert backoff.wait_s(10**6, random) <= 1.2


def test_refreshes_that_are_asked_for_together_are_one_request() -> None:
    async def main(runtime: Runtime) -> None:
        found = cluster(runtime)
        await found.refresh()
        before = len(world.cluster.requests)
        await asyncio.gather(*(found.refresh() for _ in range(20)))
        assert len(world.cluster.requests) - before <= 2
        await found.aclose()

    with ClientWorld() as world:
        world.run_client(main)


def test_the_bootstrap_servers_are_asked_again_when_no_known_broker_is_left() -> None:
    """The brokers have moved to other machines; only the bootstrap name leads to one of them."""

    async def main(runtime: Runtime) -> list[str]:
        found = cluster(runtime, bootstrap_servers="entry:9092", metadata_max_age_ms=5000)
        await found.refresh()
        assert sorted(found.metadata.brokers) == [1, 2]
        await asyncio.sleep(30)
        return [each.address.host for each in found.metadata.brokers.values()]

    def move() -> None:
        world.nodes["b1"].crash()
        world.nodes["b2"].crash()
        world.network.add_name("entry", "b3")

    with ClientWorld() as world:
        world.network.add_name("entry", "b1")
        moved = ScriptedCluster({3: "b3"})
        world.add_node("b3", moved.main(3))
        world.after(2, move)
        assert world.run_client(main) == ["b3"]


def test_a_broker_may_send_its_clients_back_to_the_bootstrap_servers() -> None:
    """The brokers that are known still answer, but the cluster is where the name leads now."""

    async def main(runtime: Runtime) -> None:
        found = cluster(runtime, bootstrap_servers="entry:9092")
        await found.refresh()
        assert sorted(found.metadata.brokers) == [1, 2]
        world.network.add_name("entry", "b3")
        world.cluster.refuse[MetadataRequest].append(ErrorCode.REBOOTSTRAP_REQUIRED)
        with pytest.raises(KafkaError, match="REBOOTSTRAP_REQUIRED"):
            await found.refresh()
        await found.refresh()
        assert sorted(found.metadata.brokers) == [3]
        await found.aclose()

    with ClientWorld() as world:
        world.network.add_name("entry", "b1")
        world.add_node("b3", ScriptedCluster({3: "b3"}).main(3))
        world.run_client(main)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "scripted"),
        ({"metadata_recovery_strategy": "None"}, "another"),
        ({"metadata_cluster_check_enable": "false"}, "another"),
    ],
)
def test_an_address_with_another_owner_is_not_taken_for_the_broker(
    given: dict[str, str], expected: str
) -> None:
    """Broker 1 has moved, and a broker of another cluster with the same id has its address."""

    async def main(runtime: Runtime) -> str | None:
        found = cluster(runtime, bootstrap_servers="entry:9092", **given)
        await found.refresh()
        await asyncio.sleep(10)
        answer = await found.retry(
            lambda: found.call(MetadataRequest(topics=[]), MetadataResponse, node_id=1)
        )
        await found.aclose()
        return answer.cluster_id

    def move() -> None:
        world.nodes["b1"].crash()
        world.nodes["b2"].crash()
        world.network.add_name("entry", "b3")
        world.network.add_name("b1", "b4")

    with ClientWorld() as world:
        world.network.add_name("entry", "b2")
        world.add_node("b3", ScriptedCluster({1: "b3"}).main(1))
        world.add_node("b4", ScriptedCluster({1: "b4"}, cluster_id="another").main(1))
        world.after(5, move)
        assert world.run_client(main) == expected


def test_a_broker_with_another_id_at_the_same_address_is_noticed() -> None:
    async def main(runtime: Runtime) -> list[int]:
        found = cluster(runtime, bootstrap_servers="b2:9092")
        await found.refresh()
        await asyncio.sleep(10)
        with pytest.raises(KafkaError, match="another broker is at this address") as caught:
            await found.connection(1)
        assert caught.value.retriable
        await found.refresh()
        await found.aclose()
        return sorted(found.metadata.brokers)

    def change() -> None:
        world.cluster.names = {2: "b2", 3: "b1"}
        world.nodes["b1"].crash()
        world.add_node("b3", world.cluster.main(3))
        world.network.add_name("b1", "b3")

    with ClientWorld() as world:
        world.after(5, change)
        assert world.run_client(main) == [2, 3]


def test_brokers_behind_one_address_are_not_told_apart() -> None:
    async def main(runtime: Runtime) -> None:
        found = cluster(runtime, bootstrap_servers="b1:9092")
        await found.refresh()
        assert found.identity_of(Address("b1", 9092)) is None
        await found.call(MetadataRequest(topics=[]), MetadataResponse, node_id=2)
        await found.aclose()

    with ClientWorld() as world:
        world.cluster.names = {1: "b1", 2: "b1"}
        world.run_client(main)


def test_reconnecting_backs_off() -> None:
    async def main(runtime: Runtime) -> None:
        found = cluster(runtime, metadata_max_age_ms=1_000_000)
        await found.refresh()
        await asyncio.sleep(20)
        for _ in range(100):
            with pytest.raises(KafkaError):
                await found.connection(1)
        seconds.append(runtime.clock.monotonic())
        await found.aclose()

    seconds: list[float] = []
    with ClientWorld() as world:
        world.after(10, world.nodes["b1"].crash)
        world.run_client(main, within=1000)
        assert 70 < world.now < 140, "about a second between tries in the end"


def test_a_connection_that_ends_as_soon_as_it_stands_is_made_again() -> None:
    """What came behind the answer to ApiVersions, in the same read, ended it before anybody had
    it."""

    async def main(runtime: Runtime) -> None:
        found = cluster(runtime, bootstrap_servers="b1:9092")
        request = MetadataRequest(topics=[])
        await found.retry(lambda: found.call(request, MetadataResponse), timeout_s=5.0)
        await found.aclose()

    with ClientWorld() as world:
        world.cluster.babble_after.add(ApiVersionsRequest)
        world.run_client(main)


def test_a_call_is_tried_again_while_that_may_help_and_then_says_how_long() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        found = cluster(runtime)
        offsets = await list_offsets(found, {T0: LATEST})
        assert offsets[T0].offset == 0
        world.cluster.refuse[ListOffsetsRequest] += [ErrorCode.LEADER_NOT_AVAILABLE] * 1000
        with pytest.raises(KafkaError) as caught:
            await list_offsets(found, {T0: EARLIEST}, timeout_s=5.0)
        await found.aclose()
        return caught.value

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.refuse[ListOffsetsRequest] += [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
        error = world.run_client(main)
        assert error.code is ErrorCode.LEADER_NOT_AVAILABLE
        assert error.context["seconds"] == pytest.approx(5.0, abs=0.01)
        assert error.context["topic"] == "t"


def test_a_kind_of_offset_that_the_broker_would_misread_is_not_asked_for() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        found = cluster(runtime)
        with pytest.raises(KafkaError) as caught:
            await list_offsets(found, {T0: MAX_TIMESTAMP})
        await found.aclose()
        return caught.value

    with ClientWorld() as world:
        world.cluster.served[2] = Versions(1, 6)
        world.cluster.add_topic("t", [1])
        assert world.run_client(main).code is ErrorCode.UNSUPPORTED_VERSION


def asked_about(world: ClientWorld, topic: str) -> list[MetadataRequest]:
    """The requests for metadata of that topic so far."""
    return [
        request
        for _, request in world.cluster.requests
        if isinstance(request, MetadataRequest)
        and topic in [each.name for each in request.topics or ()]
    ]


def test_a_member_looks_once_a_second_for_a_topic_that_there_is_not_and_finds_it_when_made() -> (
    None
):
    """So it is read from its first records on. And it is not made by being looked for: one that
    somebody deletes would come back at once."""
    found_after: list[float] = []

    async def main(runtime: Runtime) -> None:
        async with Consumer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, group_id="g", metadata_max_age_ms=300_000
        ) as reader:
            await reader.subscribe("late")
            await reader.poll(60.0)
            assert reader.assignment == []
            world.cluster.add_topic("late", [1])
            made = runtime.clock.monotonic()
            while not reader.assignment:
                await reader.poll(0.1)
            found_after.append(runtime.clock.monotonic() - made)
            seen.append(len(asked_about(world, "late")))
            await reader.poll(60.0)

    seen: list[int] = []
    with ClientWorld() as world:
        world.run_client(main)
        assert 50 <= seen[0] <= 75, "once a second"
        assert len(asked_about(world, "late")) <= seen[0] + 3, "there is nothing to look for"
        first, *others = asked_about(world, "late")
        assert first.allow_auto_topic_creation
        assert sum(each.allow_auto_topic_creation for each in others) <= 3
        assert found_after[0] < 5.0


def test_a_producer_does_not_go_on_asking_for_a_topic_that_a_send_named_in_vain() -> None:
    async def main(runtime: Runtime) -> None:
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, max_block_ms=3_000
        ) as writer:
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await writer.send("typo", b"v")
            await (await writer.send("t", b"v"))
            before.append(len(asked_about(world, "typo")))
            await asyncio.sleep(200)

    before: list[int] = []
    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
        assert before[0] >= 2, "it was tried for max.block.ms"
        assert len(asked_about(world, "typo")) <= before[0] + 1


def test_an_admin_does_not_go_on_asking_for_a_topic_that_a_call_named_in_vain() -> None:
    async def main(runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=BOOTSTRAP) as admin:
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await admin.list_offsets({TopicPartition("typo", 0): LATEST})
            before.append(len(asked_about(world, "typo")))
            await asyncio.sleep(200)

    before: list[int] = []
    with ClientWorld() as world:
        world.run_client(main)
        assert before[0] >= 1
        assert len(asked_about(world, "typo")) <= before[0] + 1


@pytest.mark.parametrize("kind", [Admin, Consumer])
def test_what_nobody_asks_about_any_more_is_not_asked_for_ever(kind: Any) -> None:
    """Not by what happens to be refreshed later either, whether it was found or not; what is asked
    about again and again stays known."""

    async def main(runtime: Runtime) -> None:
        options = {"metadata_max_age_ms": 60_000, "default_api_timeout_ms": 3_000}
        async with kind(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options) as client:
            ask = client.list_offsets if kind is Admin else client.offsets
            await ask({TopicPartition("once", 0): LATEST})
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await ask({TopicPartition("typo", 0): LATEST})
            for _ in range(4):
                await ask({TopicPartition("often", 0): LATEST})
                await asyncio.sleep(100)
            world.cluster.requests.clear()
            await asyncio.sleep(150)
            during.extend(map(len, (asked_about(world, name) for name in ("often", "once"))))
            world.cluster.requests.clear()
            await ask({TopicPartition("once", 0): LATEST})

    during: list[int] = []
    with ClientWorld() as world:
        world.cluster.add_topic("often", [1])
        world.cluster.add_topic("once", [1])
        world.run_client(main, within=1_000)
        assert during[0] >= 2, "at each refresh"
        assert during[1] == 0
        assert asked_about(world, "once"), "found again when it is needed"
        assert asked_about(world, "typo") == []


TOO_MUCH = ["a\udc80", "x" * 32_768, "\u20ac" * 10_923]
"""Names that no message has place for."""


@pytest.mark.parametrize("bad", TOO_MUCH)
@pytest.mark.parametrize("watches_all", [False, True])
def test_a_name_that_cannot_be_asked_about_costs_the_others_nothing(
    bad: str, watches_all: bool
) -> None:
    async def main(runtime: Runtime) -> None:
        asking = cluster(runtime)
        asking.watches_all = watches_all
        asking.watch([bad, "t"])
        await asking.refresh()
        assert asking.metadata.leader_of(T0) == 1
        assert asking.metadata.refused[bad] is ErrorCode.INVALID_TOPIC_EXCEPTION
        for ask in (asking.leader(TopicPartition(bad, 0)), asking.topic(bad)):
            with pytest.raises(KafkaError) as caught:
                await ask
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        asking.unwatch([bad])
        await asking.refresh()
        assert bad not in asking.metadata.refused
        await asking.aclose()

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)


@pytest.mark.parametrize("bad", TOO_MUCH)
def test_a_name_that_no_message_has_place_for_is_refused_and_all_else_goes_on(bad: str) -> None:
    words = "a topic's name is text of at most 32767 bytes in UTF-8, not str "

    async def main(runtime: Runtime) -> None:
        given: Any = {"runtime": runtime, "bootstrap_servers": BOOTSTRAP}
        async with (
            Producer(**given) as sender,
            Consumer(**given) as reader,
            Admin(**given) as admin,
        ):
            calls: list[Callable[[], Any]] = [
                lambda: sender.send(bad, b"v"),
                lambda: sender.send(bad, b"v", partition=0),
                lambda: sender.send_many(bad, [b"v"]),
                lambda: sender.partitions(bad),
                lambda: reader.partitions(bad),
                lambda: reader.end_offsets([(bad, 0)]),
                lambda: admin.describe_topics([bad]),
                lambda: admin.list_offsets({TopicPartition(bad, 0): LATEST}),
                lambda: admin.delete_records({TopicPartition(bad, 0): 1}),
            ]
            for call in calls:
                with pytest.raises(ValueError, match=words):
                    await call()
            with pytest.raises(ValueError, match=words):
                reader.assign([(bad, 0)])
            await (await sender.send("t", b"v"))
            assert await reader.partitions("t") == [T0]
            found = await admin.list_offsets({T0: LATEST})
            assert found[T0].offset == 1

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main, within=20.0)


def test_all_addresses_behind_the_name_of_a_bootstrap_server_are_tried() -> None:
    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        return [(each, port) for each in (("b1", "b2") if host == "many" else (host,))]

    async def main(runtime: Runtime) -> None:
        world.network.block("client1", "b1")
        with patch.object(runtime.network, "resolve", resolve):
            asking = cluster(
                runtime,
                bootstrap_servers="many:9092",
                socket_connection_setup_timeout_ms=2_000,
                default_api_timeout_ms=5_000,
            )
            begun = runtime.clock.monotonic()
            await asking.refresh()
            assert 1.0 <= runtime.clock.monotonic() - begun < 1.1
            world.network.block("client1", "b2")
            await asking.aclose()
            asking = cluster(runtime, bootstrap_servers="many:9092")
            with pytest.raises(KafkaError) as caught:
                await asking.refresh()
            silent = "the broker did not answer while the connection was set up"
            assert caught.value.context["tried"] == {
                "many:9092": f"cannot connect: b1: {silent}; b2: {silent}"
            }
            await asking.aclose()

    with ClientWorld() as world:
        world.run_client(main)


def test_a_closed_client_says_so_for_good() -> None:
    """Its code alone would let a caller try for ever."""

    async def main(runtime: Runtime) -> None:
        calls: list[tuple[Any, Callable[[Any], Any]]] = [
            (Admin, lambda it: it.list_topics()),
            (Producer, lambda it: it.send("t", b"")),
            (Consumer, lambda it: it.poll(1.0)),
        ]
        for kind, use in calls:
            client = kind(runtime=runtime, bootstrap_servers=BOOTSTRAP)
            await client.start()
            await client.aclose()
            await client.aclose()
            with pytest.raises(ClientClosed, match="closed") as caught:
                await use(client)
            assert not caught.value.retriable

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("unanswered", [ApiVersionsRequest, FindCoordinatorRequest])
def test_who_waits_beside_a_close_hears_that_and_is_not_cancelled(
    unanswered: type[Request],
) -> None:
    """Though what he waits for is: a connection, or where the coordinator is. Else his task would
    end as if somebody had cancelled it, and nobody would hear why."""

    async def main(runtime: Runtime) -> None:
        async with Consumer(runtime=runtime, bootstrap_servers=BOOTSTRAP, group_id="g") as reader:
            world.cluster.silence.add(unanswered)
            asking = [asyncio.create_task(reader.committed([("t", 0)])) for _ in range(2)]
            await asyncio.sleep(1.0)
            await reader.aclose(0.5)
            for each in asking:
                with pytest.raises(ClientClosed):
                    await each

    with ClientWorld() as world:
        world.run_client(main)


def test_who_looks_for_any_broker_beside_a_close_dials_no_further_one() -> None:
    """It would be waited for after the close, as long as a connection may take."""

    async def main(runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=BOOTSTRAP) as admin:
            world.cluster.silence.add(ApiVersionsRequest)
            for name in world.cluster.names.values():
                world.network.reset(name, "client1")
            await asyncio.sleep(0.1)
            asking = asyncio.create_task(admin.list_topics())
            await asyncio.sleep(1.0)
            await admin.aclose()
            async with asyncio.timeout(0.1):
                with pytest.raises(ClientClosed):
                    await asking

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("silent", [ApiVersionsRequest, MetadataRequest])
def test_a_call_takes_no_longer_than_its_limit_where_a_broker_is_silent(
    silent: type[Request],
) -> None:
    """Neither the setup of the connection nor the request for metadata goes on behind it."""

    async def main(runtime: Runtime) -> None:
        asking = cluster(runtime, bootstrap_servers="b1:9092", default_api_timeout_ms=3_000)
        begun = runtime.clock.monotonic()
        with pytest.raises(KafkaError):
            await asking.refresh()
        assert runtime.clock.monotonic() - begun <= 3.1
        await asking.aclose()

    with ClientWorld() as world:
        world.cluster.silence.add(silent)
        world.run_client(main)
