"""A task's state survives what a process and a disk do to it, or says clearly what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.runtime.real_files import RealFiles
from moldau.streams.rocks import (
    ChangelogPosition,
    RocksMemory,
    StateInUse,
    StoreCorrupted,
    StoreFailed,
    TaskDatabase,
    stores_on_disk,
)

MEMORY = RocksMemory(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)
STORES = {"counts": "key-value", "windows": "window"}
TOPIC = bytes(range(16))


def opened(path: str | Path, stores: dict[str, str] = STORES) -> TaskDatabase:
    return TaskDatabase.open(str(path), stores, MEMORY, RealFiles())


def test_rows_and_positions_are_there_after_a_clean_close(tmp_path: Path) -> None:
    database = opened(tmp_path)
    assert database.position("counts") is None
    database.backing("counts").write([(b"a", b"1")])
    database.backing("windows").write([(b"a", b"2")])
    database.commit({"counts": ChangelogPosition(7, TOPIC)})
    database.backing("counts").write([(b"never", b"committed")])
    database.close()

    database = opened(tmp_path)
    assert database.position("counts") == ChangelogPosition(7, TOPIC)
    assert database.position("windows") is None
    assert list(database.backing("counts").scan(b"", None)) == [(b"a", b"1")]
    assert list(database.backing("windows").scan(b"", None)) == [(b"a", b"2")]
    [counts, windows] = database.sizes()
    assert (counts.name, counts.kind, counts.offset) == ("counts", "key-value", 7)
    assert windows.offset == -1
    assert counts.size_bytes > 0
    database.close()


def test_a_store_without_a_changelog_is_listed_and_keeps_its_kind(tmp_path: Path) -> None:
    database = opened(tmp_path)
    database.backing("counts").write([(b"a", b"1")])
    database.commit({})
    database.close()
    assert [(each.name, each.kind, each.rows) for each in stores_on_disk(str(tmp_path))] == [
        ("counts", "key-value", 1)
    ]
    with pytest.raises(StoreFailed):
        opened(tmp_path, {"counts": "session"})


def test_a_store_that_is_cleared_has_neither_rows_nor_a_position(tmp_path: Path) -> None:
    database = opened(tmp_path)
    database.backing("counts").write([(b"", b"0"), (b"\xff" * 40, b"1")])
    database.commit({"counts": ChangelogPosition(7, TOPIC)})
    database.clear("counts")
    assert list(database.backing("counts").scan(b"", None)) == []
    assert database.position("counts") is None
    database.close()


def test_stores_may_come_and_go(tmp_path: Path) -> None:
    database = opened(tmp_path, {"counts": "key-value"})
    database.backing("counts").write([(b"a", b"1")])
    database.commit({"counts": ChangelogPosition(1)})
    database.close()
    opened(tmp_path, {"others": "key-value"}).close()
    database = opened(tmp_path, {"counts": "key-value", "others": "key-value"})
    assert database.backing("counts").get(b"a") == b"1"
    database.close()


def test_a_store_of_another_kind_is_refused(tmp_path: Path) -> None:
    database = opened(tmp_path, {"counts": "key-value"})
    database.commit({"counts": ChangelogPosition(1)})
    database.close()
    with pytest.raises(StoreFailed, match=r"counts holds key-value rows .* now wants window"):
        opened(tmp_path, {"counts": "window"})
    opened(tmp_path, {"counts": "key-value"}).close()


def test_state_that_is_in_use_is_refused(tmp_path: Path) -> None:
    database = opened(tmp_path)
    with pytest.raises(StateInUse, match="give each worker its own"):
        opened(tmp_path)
    database.close()


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*"])
def test_damaged_files_are_told_and_set_aside(tmp_path: Path, name: str) -> None:
    path = tmp_path / "0_0"
    database = opened(path)
    database.backing("counts").write([(b"a", b"1")])
    database.commit({"counts": ChangelogPosition(1)})
    database.close()
    for file in path.glob(name):
        file.write_bytes(b"garbage")
    with pytest.raises(StoreCorrupted, match="damaged"):
        opened(path)

    aside = TaskDatabase.set_aside(str(path), RealFiles())

    assert Path(aside).is_dir()
    database = opened(path)
    assert database.position("counts") is None
    database.close()


def test_damaged_rows_are_told_and_are_no_end_of_a_scan(tmp_path: Path) -> None:
    database = opened(tmp_path)
    database.backing("counts").write([(b"%05d" % each, b"x" * 50) for each in range(1000)])
    database.commit({"counts": ChangelogPosition(1)})
    database.close()
    file = max(tmp_path.glob("*.sst"), key=lambda each: each.stat().st_size)
    file.write_bytes(b"\0" * 100 + file.read_bytes()[100:])
    database = opened(tmp_path)
    with pytest.raises(StoreCorrupted, match="damaged"):
        list(database.backing("counts").scan(b"", None))
    database.close()


KILLED = """
import os, sys
from moldau.runtime.real_files import RealFiles
from moldau.streams.rocks import ChangelogPosition, RocksMemory, TaskDatabase
memory = RocksMemory(write_buffer_bytes=64 << 10)
stores = {"counts": "key-value", "windows": "window"}
database = TaskDatabase.open(sys.argv[1], stores, memory, RealFiles())
begin = database.position("counts")
at = 0 if begin is None else begin.offset
for _ in range(int(sys.argv[2])):
    at += 1
    row = (b"last", b"%d" % at)
    database.backing("counts").write([row, (b"%d" % at, b"x" * 200)])
    database.backing("windows").write([row])
    position = ChangelogPosition(at)
    database.commit({"counts": position, "windows": position})
if "flush" in sys.argv:
    database.flush()
os.kill(os.getpid(), 9)
"""


@pytest.mark.real
def test_after_kill_the_offset_is_that_of_the_rows(tmp_path: Path) -> None:
    reached = 0
    for commits in (1, 700, 1300, 2900):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(commits)]
        assert subprocess.run(command, check=False).returncode == -9  # noqa: S603
        database = opened(tmp_path)
        position = database.position("counts")
        assert database.position("windows") == position
        offset = 0 if position is None else position.offset
        expected = None if position is None else b"%d" % offset
        assert database.backing("counts").get(b"last") == expected
        assert database.backing("windows").get(b"last") == expected
        assert offset >= reached
        assert len(list(database.backing("counts").scan(b"", None))) == (offset and offset + 1)
        reached = offset
        database.close()
    assert reached > 0, "nothing was flushed before any kill: the buffers are too large to prove it"


@pytest.mark.real
def test_after_kill_everything_that_was_flushed_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), "3", "flush"]
    assert subprocess.run(command, check=False).returncode == -9  # noqa: S603
    database = opened(tmp_path)
    assert database.position("counts") == ChangelogPosition(3)
    assert database.backing("counts").get(b"last") == b"3"
    assert database.backing("windows").get(b"last") == b"3"
    database.close()


def test_rows_of_an_earlier_layout_are_deleted_and_restored_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = opened(tmp_path, {"records": "window", "counts": "key-value"})
    for name in ("records", "counts"):
        database.backing(name).write([(b"a", b"1")])
    database.commit({"records": ChangelogPosition(7, TOPIC), "counts": ChangelogPosition(8, TOPIC)})
    database.close()

    now = {"records": "window/slices of 5 ms", "counts": "key-value"}
    database = opened(tmp_path, now)

    assert database.position("records") is None
    assert list(database.backing("records").scan(b"", None)) == []
    assert database.backing("counts").get(b"a") == b"1"
    assert "the rows of store records have an earlier layout" in caplog.text
    database.backing("records").write([(b"b", b"2")])
    database.commit({"records": ChangelogPosition(9, TOPIC)})
    database.close()
    database = opened(tmp_path, now)
    assert database.position("records") == ChangelogPosition(9, TOPIC)
    assert database.backing("records").get(b"b") == b"2"
    assert [each.kind for each in database.sizes()] == ["key-value", "window"]
    database.close()


def test_the_layout_of_a_store_without_a_changelog_is_noted_too(tmp_path: Path) -> None:
    first = {"records": "window/slices of 5 ms"}
    database = opened(tmp_path, first)
    database.backing("records").write([(b"a", b"1")])
    database.commit({})
    database.close()
    database = opened(tmp_path, first)
    assert database.backing("records").get(b"a") == b"1"
    database.close()
    database = opened(tmp_path, {"records": "window/slices of 9 ms"})
    assert database.backing("records").get(b"a") is None
    database.close()


def test_no_way_to_write_reaches_the_disk_before_a_commit(tmp_path: Path) -> None:
    """As in KAFKA-20933, where one of them went past the buffer."""
    path = str(tmp_path / "0_0")
    kinds = {"counts": "key-value"}
    memory = RocksMemory(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)
    database = TaskDatabase.open(path, kinds, memory, RealFiles())
    database.backing("counts").write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    database.commit({"counts": ChangelogPosition(3)})
    committed = list(database.committed("counts").scan(b"", None))

    backing = database.backing("counts")
    backing.write([(b"a", b"2"), (b"d", b"2")])
    backing.write([(b"b", None)])
    backing.delete_range(b"c", b"z")
    backing.write([(b"e", b"2")])

    assert list(backing.scan(b"", None)) == [(b"a", b"2"), (b"e", b"2")]
    seen = database.committed("counts")
    assert list(seen.scan(b"", None)) == committed
    assert list(seen.scan(b"b", b"c", is_reverse=True)) == [(b"b", b"1")]
    assert (seen.get(b"a"), seen.get(b"e")) == (b"1", None)
    database.close()
    again = TaskDatabase.open(path, kinds, memory, RealFiles())
    assert list(again.backing("counts").scan(b"", None)) == committed
    again.close()
