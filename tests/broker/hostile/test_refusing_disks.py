"""A real process on a disk that fills up or turns read-only: clients hear it, nothing that was
acknowledged is lost, and the process says why and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.broker.hostile.small_disk import small_disk
from tests.broker.main.processes import BrokerProcess, broker_process, finished
from tests.broker.server.wire import Wire, wired

pytestmark = pytest.mark.real

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
VALUE_BYTES = 20_000
APPENDS_MAX = 5000
END_SECONDS = 30
SMALL_FILES = ("--set", "log.index.size.max.bytes=4096")
"""Else two indexes of ten megabytes would be reserved, of which a small disk has no room."""
NO_FLOOR = ("--set", "moldau.log.dir.free.bytes.min=0")


def asked(broker: BrokerProcess, talk: Callable[[Wire], Awaitable[None]]) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with wired(runtime, broker.host, broker.port) as wire:
            await talk(wire)

    run(scenario)


def value(number: int) -> bytes:
    return f"{number}.".encode() * (VALUE_BYTES // len(f"{number}."))


async def append_until_refused(wire: Wire, topic: str, partition: int = 0) -> tuple[int, ErrorCode]:
    """How many were acknowledged, and what was said to the next one."""
    for number in range(APPENDS_MAX):
        try:
            answer = await wire.produce(topic, [value(number)], partition)
        except (OSError, EOFError):
            return number, ErrorCode.NETWORK_EXCEPTION
        if answer.error_code:
            return number, ErrorCode(answer.error_code)
        assert answer.base_offset == number
    raise AssertionError("the disk took everything")


def ended(broker: BrokerProcess) -> tuple[int, str]:
    """Code and log of a process that ends by itself."""
    _, log = broker.process.communicate(timeout=END_SECONDS)
    return broker.process.returncode, log


def told_why(log: str, why: str) -> None:
    assert why in log, log
    assert "look after its disk" in log or "look at its disk" in log, log
    assert "Traceback" not in log, log


async def whole(wire: Wire, topic: str, count: int) -> None:
    """All that was acknowledged is there; what was not may be."""
    found = await wire.fetch_all(topic)
    assert len(found) >= count
    assert all(each == value(number) for number, each in enumerate(found[:count]))


@pytest.mark.parametrize(
    "settings", [NO_FLOOR, (*NO_FLOOR, *SMALL_FILES)], ids=["large files", "small files"]
)
def test_a_full_disk_ends_the_process_and_room_brings_all_back(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    with small_disk(tmp_path / "disk", "24m") as disk:
        data = str(disk.path / "data")
        count = 0
        with broker_process(tmp_path, "--data", data, *settings) as broker:

            async def fill(wire: Wire) -> None:
                nonlocal count
                assert await wire.create("orders") == ErrorCode.NONE
                count, code = await append_until_refused(wire, "orders")
                assert code == STORAGE

            asked(broker, fill)
            code, log = ended(broker)
        assert code == 1, (code, log)
        told_why(log, "No space left on device")
        assert count > 100

        disk.remount("size=64m")
        with broker_process(tmp_path, "--data", data, *settings) as broker:

            async def look(wire: Wire) -> None:
                await whole(wire, "orders", count)
                assert (await wire.produce("orders", [b"more"])).error_code == ErrorCode.NONE

            asked(broker, look)


def test_a_nearly_full_disk_refuses_produces_until_there_is_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64m") as disk:
        data = str(disk.path / "data")
        with broker_process(tmp_path, "--data", data, *SMALL_FILES) as broker:

            async def fill(wire: Wire) -> None:
                for topic in ("orders", "others"):
                    assert await wire.create(topic) == ErrorCode.NONE
                assert (await wire.produce("others", [b"x"])).error_code == ErrorCode.NONE
                count, code = await append_until_refused(wire, "orders")
                assert code == STORAGE
                refused = await wire.produce("others", [b"y"])
                assert refused.error_code == STORAGE
                assert "nearly full" in (refused.error_message or "")
                assert "free_bytes_min" in (refused.error_message or "")
                await whole(wire, "orders", count)
                assert await wire.create("third") == ErrorCode.NONE, "metadata goes on"

            async def make_room(wire: Wire) -> None:
                disk.remount("size=128m")
                async with asyncio.timeout(END_SECONDS):
                    while (await wire.produce("others", [b"z"])).error_code == STORAGE:
                        pass
                assert await wire.fetch_all("others") == [b"x", b"z"]

            asked(broker, fill)
            asked(broker, make_room)
            code, log = broker.stop()
        assert code == 0, log
        assert log.count("a disk is nearly full") == 1
        assert "out of service" not in log


def test_a_full_disk_of_two_takes_its_partitions_and_no_more(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        directories = f"{tmp_path / 'large'},{disk.path / 'small'}"
        given = ("--set", f"log.dirs={directories}", *SMALL_FILES, *NO_FLOOR)
        with broker_process(tmp_path, *given) as broker:

            async def fill(wire: Wire) -> None:
                assert await wire.create("orders", 2) == ErrorCode.NONE
                refused = []
                for partition in range(2):
                    with suppress(AssertionError):
                        refused.append(await append_until_refused(wire, "orders", partition))
                assert [code for _, code in refused] == [STORAGE]
                answers = [await wire.produce("orders", [b"x"], each) for each in range(2)]
                codes = sorted(each.error_code for each in answers)
                assert codes == [ErrorCode.NONE, STORAGE]
                assert await wire.create("others", 2) == ErrorCode.NONE

            asked(broker, fill)
            assert broker.process.poll() is None
            _, log = broker.stop()
        told_why(log, "No space left on device")


def test_a_disk_that_turns_read_only_is_told_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64m") as disk:
        data = str(disk.path / "data")
        with broker_process(tmp_path, "--data", data) as broker:

            async def write(wire: Wire) -> None:
                await wire.create("orders", flush_messages="1")
                for number in range(20):
                    answer = await wire.produce("orders", [value(number)])
                    assert answer.error_code == ErrorCode.NONE

            asked(broker, write)
            broker.kill()

        disk.remount("ro")
        code, out, err = finished(
            "broker", "start", "--data", data, "--listen", "127.0.0.1:0", home=tmp_path
        )
        assert code == 1, err
        assert out == ""
        assert "Read-only file system" in err
        assert data in err
        assert "Traceback" not in err

        disk.remount("rw")
        with broker_process(tmp_path, "--data", data) as broker:
            asked(broker, lambda wire: whole(wire, "orders", 20))


def test_a_directory_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    """Whoever is root may write everywhere, but not into a file."""
    (tmp_path / "file").write_text("")
    data = str(tmp_path / "file" / "data")
    code, out, err = finished(
        "broker", "start", "--data", data, "--listen", "127.0.0.1:0", home=tmp_path
    )

    assert code != 0
    assert out == ""
    assert "Not a directory" in err
    assert "Traceback" not in err


def test_appends_that_wait_for_the_disk_are_answered_when_it_fails(tmp_path: Path) -> None:
    """Several at once, each to be acknowledged after fsync, as the disk fills up."""
    with small_disk(tmp_path / "disk", "8m") as disk:
        data = str(disk.path / "data")
        with broker_process(tmp_path, "--data", data, *SMALL_FILES, *NO_FLOOR) as broker:

            async def scenario(runtime: Runtime) -> None:
                async with wired(runtime, broker.host, broker.port) as wire:
                    await wire.create("orders", 8, flush_messages="1")

                async def fill(partition: int) -> ErrorCode:
                    async with wired(runtime, broker.host, broker.port) as wire:
                        _, code = await append_until_refused(wire, "orders", partition)
                        return code

                async with asyncio.timeout(END_SECONDS):
                    codes = await asyncio.gather(*map(fill, range(8)))
                # The process ends; who asks too late finds nobody.
                assert STORAGE in codes
                assert set(codes) <= {
                    STORAGE,
                    ErrorCode.NETWORK_EXCEPTION,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                }

            run(scenario)
            code, log = ended(broker)
        assert code == 1
        told_why(log, "No space left on device")
