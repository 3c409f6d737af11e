"""A bucket: what is put is there, failures have a reason, lost answers are told from failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from moldau.objects.object_store import ObjectStore, Operation, StoreLimits
from moldau.objects.obstore_bucket import PART_BYTES, PARTS_IN_FLIGHT, ObstoreBucket
from moldau.objects.store_address import (
    StoreConfig,
    parse_address,
)
from moldau.objects.store_errors import StoreError, StoreReason, reason_of
from moldau.records import Buffer
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from tests.broker.tiered import s3_servers
from tests.broker.tiered.faulty_proxy import Fault, FaultyProxy
from tests.broker.tiered.s3_servers import BUCKET, S3Server
from tests.broker.tiered.stores import (
    IMPATIENT,
    QUICK,
    folder_store,
    on_runtime,
    pieces,
    refusal,
    s3_store,
    whole,
)

pytestmark = pytest.mark.real

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("status code: 404 Not Found: <Error><Code>NoSuchBucket</Code>", StoreReason.NO_BUCKET),
        ("non-2xx status code: 404 Not Found", StoreReason.NOT_FOUND),
        ("non-2xx status code: 403 Forbidden", StoreReason.NO_RIGHTS),
        ("non-2xx status code: 418 Teapot", StoreReason.REFUSED),
        ("non-2xx status code: 502 Bad Gateway", StoreReason.SERVER_ERROR),
        ("<Code>RequestTimeTooSkewed</Code>", StoreReason.CLOCK),
        ("<Code>ExpiredToken</Code>", StoreReason.NO_CREDENTIALS),
        ("Received redirect without LOCATION", StoreReason.WRONG_REGION),
        ("HTTP error: error sending request", StoreReason.UNREACHABLE),
        ("kind: StorageFull", StoreReason.NO_SPACE),
        ("Bulk delete request failed: not now (code: SlowDown)", StoreReason.THROTTLED),
        ("Bulk delete request failed: no (code: 403)", StoreReason.NO_RIGHTS),
        ("Wanted range starting at 11, but object was only 11 bytes long", StoreReason.BAD_RANGE),
    ],
)
def test_a_failure_has_a_reason(text: str, reason: StoreReason) -> None:
    assert reason_of(text) is reason


def test_a_folder_is_a_store(tmp_path: Path) -> None:
    on_runtime(lambda runtime: whole(folder_store(runtime, tmp_path)))


@pytest.mark.usefixtures("key")
def test_moto_is_a_store(moto: S3Server) -> None:
    on_runtime(lambda runtime: whole(s3_store(runtime, moto.port, uuid4().hex)))


@pytest.mark.usefixtures("key")
def test_versitygw_is_a_store(versitygw: S3Server) -> None:
    on_runtime(lambda runtime: whole(s3_store(runtime, versitygw.port, uuid4().hex)))


@pytest.mark.usefixtures("key")
def test_a_long_list_comes_page_by_page(moto: S3Server) -> None:
    async def main(runtime: Runtime) -> set[str]:
        store = s3_store(runtime, moto.port, uuid4().hex)
        for number in range(1003):
            await store.put(f"n/{number:05d}", b"x")
        return {each.name async for each in store.list("n")}

    assert on_runtime(main) == {f"n/{number:05d}" for number in range(1003)}


def test_a_long_list_of_a_folder_is_whole(tmp_path: Path) -> None:
    names = {f"{folder}/{number:04d}" for folder in ("n", "n-o") for number in range(700)}
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    async def main(runtime: Runtime) -> list[str]:
        return [each.name async for each in folder_store(runtime, tmp_path).list()]

    assert on_runtime(main) == sorted(names)


@pytest.mark.usefixtures("key")
def test_the_endpoint_is_found_where_every_sdk_finds_it(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.url)
    monkeypatch.setenv("AWS_REGION", s3_servers.REGION)

    async def main(runtime: Runtime) -> None:
        config = StoreConfig(parse_address(f"s3://{BUCKET}/{uuid4().hex}"))
        await ObjectStore(runtime, ObstoreBucket(runtime, config), QUICK).check()

    on_runtime(main)


# Wrong use: one line, and no attempt beyond the first.


@pytest.mark.usefixtures("key")
def test_a_missing_bucket_is_named(moto: S3Server) -> None:
    error = on_runtime(lambda runtime: refusal(s3_store(runtime, moto.port, "p", bucket="missing")))

    assert error.why is StoreReason.NO_BUCKET


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> StoreError:
        with pytest.raises(StoreError) as found:
            folder_store(runtime, tmp_path / "missing")
        return found.value

    assert on_runtime(main).why is StoreReason.NO_BUCKET


@pytest.mark.parametrize(("key", "secret"), [("other", s3_servers.SECRET), (s3_servers.KEY, "no")])
def test_wrong_credentials_are_named(
    versitygw: S3Server, key: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_servers.use_key(monkeypatch, key, secret)
    error = on_runtime(lambda runtime: refusal(s3_store(runtime, versitygw.port, "p")))

    assert error.why is StoreReason.NO_CREDENTIALS


def test_missing_rights_are_named(versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_servers.use_key(monkeypatch, *s3_servers.make_user(versitygw))
    error = on_runtime(lambda runtime: refusal(s3_store(runtime, versitygw.port, "p")))

    assert error.why is StoreReason.NO_RIGHTS


@pytest.mark.usefixtures("key")
def test_a_wrong_region_is_named(versitygw: S3Server) -> None:
    error = on_runtime(
        lambda runtime: refusal(s3_store(runtime, versitygw.port, "p", region="eu-west-9"))
    )

    assert error.why is StoreReason.WRONG_REGION


@pytest.mark.usefixtures("key")
def test_a_clock_that_is_off_is_named(moto: S3Server) -> None:
    async def main(runtime: Runtime) -> StoreError:
        async with FaultyProxy(moto.port) as proxy:
            proxy.always = Fault.SKEWED
            return await refusal(s3_store(runtime, proxy.port, "p"))

    assert on_runtime(main).why is StoreReason.CLOCK


@pytest.mark.usefixtures("key")
def test_a_server_that_is_gone_is_unreachable(moto: S3Server) -> None:
    async def main(runtime: Runtime) -> StoreError:
        async with FaultyProxy(moto.port) as proxy:
            limits = StoreLimits(deadline_s=0.2, backoff=Backoff(10, 20))
            store = s3_store(runtime, proxy.port, "p", limits=limits)
        with pytest.raises(StoreError) as found:
            await store.put("a", b"x")
        return found.value

    error = on_runtime(main)

    assert error.why in (StoreReason.UNREACHABLE, StoreReason.TIMEOUT)
    assert not error.is_outcome_known


# Faults on the way.


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.BUSY, StoreReason.THROTTLED),
        (Fault.BROKEN, StoreReason.SERVER_ERROR),
        (Fault.HANG, StoreReason.TIMEOUT),
        (Fault.LATE, StoreReason.TIMEOUT),
        (Fault.CUT, StoreReason.UNREACHABLE),
        (Fault.LOST, StoreReason.UNREACHABLE),
    ],
)
def test_a_read_gets_over_faults(moto: S3Server, fault: Fault, reason: StoreReason) -> None:
    content = bytes(range(256)) * 400

    async def main(runtime: Runtime) -> ObjectStore:
        async with FaultyProxy(moto.port) as proxy:
            store = s3_store(runtime, proxy.port, uuid4().hex, limits=IMPATIENT)
            await store.put("a", content)
            proxy.faults.extend([fault, fault])
            assert bytes(await store.get_range("a", 5, len(content) - 5)) == content[5:]
            return store

    counts = on_runtime(main).counts

    assert counts.failures[Operation.GET, reason] >= 2
    assert counts.failed_calls[Operation.GET] == 0


@pytest.mark.usefixtures("key")
def test_a_slow_answer_is_an_answer(moto: S3Server) -> None:
    async def main(runtime: Runtime) -> ObjectStore:
        async with FaultyProxy(moto.port) as proxy:
            store = s3_store(runtime, proxy.port, uuid4().hex)
            await store.put("a", b"x" * MIB)
            proxy.faults.append(Fault.SLOW)
            assert len(await store.get_range("a", 0, MIB)) == MIB
            return store

    assert not on_runtime(main).counts.failures


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LATE, Fault.BUSY, Fault.BROKEN, Fault.HANG])
def test_a_put_with_a_lost_answer_succeeds_once(moto: S3Server, fault: Fault) -> None:
    async def main(runtime: Runtime) -> bytes:
        async with FaultyProxy(moto.port) as proxy:
            store = s3_store(runtime, proxy.port, uuid4().hex, limits=IMPATIENT)
            proxy.only = "PUT"
            proxy.faults.extend([fault, fault])
            await store.put("a", b"mine")
            assert [each.fault for each in proxy.seen][:2] in ([fault, fault], [fault, Fault.PASS])
            return bytes(await store.get_range("a", 0, 9))

    assert on_runtime(main) == b"mine"


@pytest.mark.usefixtures("key")
def test_a_put_with_a_lost_answer_does_not_take_another_object_for_its_own(moto: S3Server) -> None:
    async def main(runtime: Runtime) -> tuple[StoreError, bytes]:
        async with FaultyProxy(moto.port) as proxy:
            store = s3_store(runtime, proxy.port, uuid4().hex, limits=IMPATIENT)
            await store.put("a", b"them")
            proxy.only = "PUT"
            proxy.faults.append(Fault.HANG)
            with pytest.raises(StoreError) as found:
                await store.put("a", b"mine")
            return found.value, bytes(await store.get_range("a", 0, 9))

    error, content = on_runtime(main)

    assert error.why is StoreReason.ALREADY_EXISTS
    assert content == b"them"


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("PUT", Fault.BUSY),
        ("PUT", Fault.CUT),
        ("PUT", Fault.TORN),
        ("PUT", Fault.LOST),
        ("PUT", Fault.HANG),
        ("POST", Fault.LOST),
        ("POST", Fault.LATE),
        ("POST", Fault.BROKEN),
    ],
)
def test_an_upload_gets_over_faults(moto: S3Server, method: str, fault: Fault) -> None:
    content = bytes(range(256)) * (18 * MIB // 256)

    async def main(runtime: Runtime) -> None:
        async with FaultyProxy(moto.port) as proxy:
            limits = StoreLimits(attempt_s=3, deadline_s=60, backoff=Backoff(1, 20))
            store = s3_store(runtime, proxy.port, uuid4().hex, limits=limits)
            proxy.only = method
            proxy.faults.append(Fault.PASS)
            proxy.faults.append(fault)
            size = await store.put_parts("a", lambda: pieces(content, 3 * MIB), len(content))
            assert size == len(content)
            proxy.only = None
            for start in range(0, len(content), 6 * MIB):
                found = bytes(await store.get_range("a", start, 6 * MIB))
                assert found == content[start : start + 6 * MIB]

    on_runtime(main)


@pytest.mark.usefixtures("key")
def test_a_call_ends_at_its_deadline(moto: S3Server) -> None:
    async def main(runtime: Runtime) -> tuple[StoreError, ObjectStore]:
        async with FaultyProxy(moto.port) as proxy:
            proxy.always = Fault.HANG
            limits = StoreLimits(attempt_s=0.1, deadline_s=0.5, backoff=Backoff(1, 5))
            store = s3_store(runtime, proxy.port, uuid4().hex, limits=limits)
            with pytest.raises(StoreError) as found:
                await store.put("a", b"x")
            return found.value, store

    error, store = on_runtime(main)

    assert error.why is StoreReason.TIMEOUT
    assert not error.is_outcome_known
    assert store.counts.failed_calls[Operation.PUT] == 1


@pytest.mark.usefixtures("key")
def test_an_upload_does_not_run_ahead_of_a_slow_server(moto: S3Server) -> None:
    """What is in memory is bounded by the parts in flight, and not by the size of the object."""
    pulled: list[int] = []

    async def content() -> AsyncIterator[Buffer]:
        pulled.append(0)
        for _ in range(100):
            pulled[-1] += 1
            yield bytes(MIB)

    async def main(runtime: Runtime) -> None:
        async with FaultyProxy(moto.port) as proxy:
            store = s3_store(runtime, proxy.port, uuid4().hex)
            await store.put("other", b"x")
            proxy.only, proxy.always = "PUT", Fault.HANG
            before = len(proxy.seen)
            upload = runtime.spawn(store.put_parts("a", content, 0), name="upload", reported=False)
            while sum(each.method == "PUT" for each in proxy.seen[before:]) < PARTS_IN_FLIGHT:
                await store.get_range("other", 0, 1)
            for _ in range(20):
                await store.get_range("other", 0, 1)
            upload.cancel()
            await asyncio.wait([upload])

    on_runtime(main)

    assert len(pulled) == 1
    assert pulled[0] * MIB <= PARTS_IN_FLIGHT * PART_BYTES + 2 * MIB
