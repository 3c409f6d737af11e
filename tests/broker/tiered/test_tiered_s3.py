"""A broker whose segments go to an S3 server, and what it says about a store that refuses it."""

from __future__ import annotations

import pytest

from moldau.broker.tiered.remote_segment import DeletionState
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from tests.broker.server.houses import house
from tests.broker.tiered import s3_servers
from tests.broker.tiered.faulty_proxy import Fault, FaultyProxy
from tests.broker.tiered.s3_servers import BUCKET, REGION, S3Server
from tests.broker.tiered.stores import on_runtime, s3_store
from tests.broker.tiered.tiered_house import (
    VALUE,
    delete_topic,
    finished_ranges,
    first_file,
    is_cut,
    last_base,
    read_whole,
    remote_of,
    until,
)
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC

pytestmark = [pytest.mark.real, pytest.mark.deep]


def address(server: S3Server, prefix: str, bucket: str = BUCKET) -> dict[str, str]:
    return {
        "remote_storage": f"s3://{bucket}/{prefix}",
        "remote_storage_endpoint": server.url,
        "remote_storage_region": REGION,
    }


@pytest.mark.usefixtures("key")
def test_segments_go_to_an_s3_server(versitygw: S3Server) -> None:
    async def main(runtime: Runtime) -> None:
        given = {**SETTINGS, **address(versitygw, "broker")}
        async with house(runtime) as home, home.open(**given) as (broker, wire):
            assert await wire.create("t", 1, **TOPIC) == ErrorCode.NONE
            for _ in range(40):
                await wire.produce("t", [VALUE])
            await until(lambda: is_cut(broker, "t"))
            topic_id = await wire.topic_id("t")
            store = s3_store(runtime, versitygw.port, "broker")
            names = [each.name async for each in store.list("t-")]
            names = names or [
                each.name async for each in store.list() if each.name.startswith("t-")
            ]
            assert len(names) == 2 * len(finished_ranges(remote_of(broker, topic_id))) > 0

    on_runtime(main)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"remote_storage": "s3://nowhere/x"}, "bucket"),
        ({"remote_storage_region": "eu-west-9"}, "remote.storage.region"),
        ({}, "AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_store_that_refuses_is_one_line_that_says_what_to_do(
    versitygw: S3Server, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], advice: str
) -> None:
    """No bucket, the wrong region, a key that nobody has."""
    if wrong:
        s3_servers.use_key(monkeypatch)
    else:
        s3_servers.use_key(monkeypatch, "nobody", "nothing")

    async def main(runtime: Runtime) -> None:
        await check_refused(runtime, {**address(versitygw, "refused"), **wrong}, advice)

    on_runtime(main)


def test_a_key_without_rights_is_one_line_that_names_them(
    versitygw: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_servers.use_key(monkeypatch, *s3_servers.make_user(versitygw))

    async def main(runtime: Runtime) -> None:
        await check_refused(runtime, address(versitygw, "forbidden"), "allow get, put, delete")

    on_runtime(main)


@pytest.mark.usefixtures("key")
def test_a_clock_that_is_off_is_one_line_that_says_so(versitygw: S3Server) -> None:
    async def main(runtime: Runtime) -> None:
        async with FaultyProxy(versitygw.port) as proxy:
            proxy.always = Fault.SKEWED
            server = S3Server(proxy.port)
            await check_refused(runtime, address(server, "skewed"), "clock is off")

    on_runtime(main)


async def check_refused(runtime: Runtime, where: dict[str, str], advice: str) -> None:
    """One line says what to do, and the node serves all that it has."""
    async with house(runtime) as home, home.open(**SETTINGS, **where) as (broker, wire):
        assert await wire.create("t", 1, **TOPIC) == ErrorCode.NONE
        for _ in range(40):
            await wire.produce("t", [VALUE])
        await until(lambda: bool(home.complaints()))
        (line,) = home.complaints()
        assert "s3://" in line
        assert advice in line
        assert len(await wire.fetch_all("t")) == 40
        assert first_file(broker, "t") == 0


@pytest.mark.usefixtures("key")
def test_deletes_that_come_late_leave_nothing_and_are_no_fault(versitygw: S3Server) -> None:
    """The store lists objects for a while whose deletion it has confirmed."""

    async def main(runtime: Runtime) -> None:
        store = s3_store(runtime, versitygw.port, "late")

        async def left() -> list[str]:
            names = [each.name async for each in store.list()]
            return [each for each in names if each.startswith("t-")]

        async with FaultyProxy(versitygw.port) as proxy:
            given = {**SETTINGS, **address(S3Server(proxy.port), "late")}
            async with house(runtime) as home, home.open(**given) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                for _ in range(40):
                    await wire.produce("t", [VALUE])
                await until(lambda: is_cut(broker, "t"))
                topic_id = await wire.topic_id("t")
                proxy.within, proxy.always = "?delete", Fault.LATER
                await delete_topic(wire, "t")
                await until(lambda: remote_of(broker, topic_id).deletion is DeletionState.FINISHED)
                assert await left()
                proxy.always = None
                await proxy.catch_up()
                assert await left() == []
                assert home.complaints() == []

    on_runtime(main)


@pytest.mark.usefixtures("key")
def test_a_store_that_refuses_later_is_one_line_and_readers_try_again(
    versitygw: S3Server,
) -> None:
    """What is remote only cannot be read meanwhile; the rest can. Then all is read again. The first
    request that is refused is a HEAD, whose answer has no text."""

    async def main(runtime: Runtime) -> None:
        async with FaultyProxy(versitygw.port) as proxy:
            given = {**SETTINGS, **address(S3Server(proxy.port), "later")}
            async with house(runtime) as home, home.open(**given) as (broker, wire):
                await wire.create("t", 1, **TOPIC)
                for _ in range(40):
                    await wire.produce("t", [VALUE])
                await until(lambda: is_cut(broker, "t"))
                proxy.always = Fault.SKEWED
                answer = await wire.fetch_answer("t", last_base(broker, "t"))
                assert answer.error_code == ErrorCode.NONE
                for _ in range(40):
                    await wire.produce("t", [VALUE])
                await until(lambda: bool(home.complaints()))
                (line,) = [each for each in home.complaints() if "s3://" in each]
                assert "segments stay on the local disk" in line
                assert "clock is off" in line
                proxy.always = None
                base = last_base(broker, "t")
                await until(lambda: is_cut(broker, "t", base))
                assert len(await read_whole(wire, "t")) == 80

    on_runtime(main)
