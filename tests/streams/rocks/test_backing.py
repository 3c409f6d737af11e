"""What a store sees of its rows is the same before and after a commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.runtime.real_files import RealFiles
from moldau.streams.rocks import ChangelogPosition, RocksBacking, RocksMemory, TaskDatabase

MEMORY = RocksMemory(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)


def opened(path: Path, **stores: str) -> TaskDatabase:
    return TaskDatabase.open(
        str(path / "0_0"), stores or {"counts": "key-value"}, MEMORY, RealFiles()
    )


def rows(backing: RocksBacking, first: bytes = b"", end: bytes | None = None) -> list[bytes]:
    return [key for key, _ in backing.scan(first, end)]


def test_rows_are_seen_before_they_are_committed_and_after(tmp_path: Path) -> None:
    database = opened(tmp_path)
    backing = database.backing("counts")
    backing.write([(b"b", b"2"), (b"a", b"1")])
    assert (backing.get(b"a"), backing.get(b"c")) == (b"1", None)
    assert list(backing.scan(b"", None)) == [(b"a", b"1"), (b"b", b"2")]

    database.commit({"counts": ChangelogPosition(2)})

    assert database.staged_bytes == 0
    assert (backing.get(b"a"), backing.get(b"c")) == (b"1", None)
    assert list(backing.scan(b"", None)) == [(b"a", b"1"), (b"b", b"2")]
    database.close()


def test_a_scan_merges_committed_rows_with_newer_ones(tmp_path: Path) -> None:
    database = opened(tmp_path)
    backing = database.backing("counts")
    backing.write([(b"a", b"1"), (b"c", b"1"), (b"e", b"1"), (b"g", b"1")])
    database.commit({})
    backing.write([(b"b", b"2"), (b"c", b"2"), (b"e", None), (b"h", b"2")])

    expected = [(b"a", b"1"), (b"b", b"2"), (b"c", b"2"), (b"g", b"1"), (b"h", b"2")]
    assert list(backing.scan(b"", None)) == expected
    assert list(backing.scan(b"", None, is_reverse=True)) == expected[::-1]
    assert rows(backing, b"b", b"g") == [b"b", b"c"]
    assert rows(backing, b"c", b"c") == []
    database.close()


def test_a_deleted_range_hides_committed_rows_and_not_later_ones(tmp_path: Path) -> None:
    database = opened(tmp_path)
    backing = database.backing("counts")
    backing.write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    database.commit({})
    backing.write([(b"aa", b"2")])
    backing.delete_range(b"a", b"c")
    backing.write([(b"b", b"3")])

    def check() -> None:
        assert list(backing.scan(b"", None)) == [(b"b", b"3"), (b"c", b"1")]
        assert (backing.get(b"a"), backing.get(b"aa"), backing.get(b"b")) == (None, None, b"3")

    check()
    database.commit({})
    check()
    database.close()


def test_a_scan_may_be_left_open_when_the_database_closes(tmp_path: Path) -> None:
    database = opened(tmp_path)
    backing = database.backing("counts")
    backing.write([(b"a", b"1"), (b"b", b"1")])
    database.commit({})
    scan = backing.scan(b"", None)
    assert next(scan) == (b"a", b"1")
    database.close()
    opened(tmp_path).close()  # nothing holds the lock any more
    assert list(scan) == []


KEYS = st.binary(max_size=2)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), KEYS, st.one_of(st.none(), st.binary(max_size=2))),
        st.tuples(st.just("delete_range"), KEYS, KEYS),
        st.tuples(st.just("commit")),
        st.tuples(st.just("clear")),
    ),
    max_size=20,
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskDatabase]:
    database = opened(tmp_path_factory.mktemp("state"))
    yield database
    database.close()


@given(CALLS, KEYS, st.one_of(st.none(), KEYS))
def test_it_is_a_sorted_mapping(
    database: TaskDatabase, calls: list[tuple[str, bytes, bytes]], first: bytes, end: bytes | None
) -> None:
    database.clear("counts")
    backing, model = database.backing("counts"), dict[bytes, bytes]()
    for name, *arguments in calls:
        if name == "write":
            key, value = arguments
            backing.write([(key, value)])
            model.pop(key, None)
            if value is not None:
                model[key] = value
        elif name == "delete_range":
            low, high = arguments
            backing.delete_range(low, high)
            model = {key: value for key, value in model.items() if not low <= key < high}
        elif name == "commit":
            database.commit({})
        else:
            database.clear("counts")
            model = {}
    expected = [
        row for row in sorted(model.items()) if first <= row[0] and (end is None or row[0] < end)
    ]
    assert list(backing.scan(first, end)) == expected
    assert list(backing.scan(first, end, is_reverse=True)) == expected[::-1]
    assert all(backing.get(key) == model.get(key) for key in {first, *model})
