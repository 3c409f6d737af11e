"""The file sink: Kafka's one file, and rolled files that hold each record exactly once."""

from __future__ import annotations

import csv
import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.connect.api import ConnectError, DataError, RetriableError, Schema
from moldau.connect.data import FLOAT32, FLOAT64, INT64, OPTIONAL_STRING
from moldau.connectors.file.formats import java_text
from moldau.connectors.file.naming import DRAFTS, RolledOffsets, range_of
from moldau.connectors.file.sink import (
    FileStreamSinkConnector,
    FileStreamSinkTask,
    RolledFileSinkTask,
)
from moldau.connectors.file.storage import LocalStorage
from moldau.errors import ConfigError
from tests.connectors.contexts import (
    TOPIC,
    Reporter,
    SinkContext,
    VirtualPace,
    at,
    committed,
    record,
    struct,
)

ITEM = Schema.struct({"id": INT64, "name": OPTIONAL_STRING})
HERE = at(TOPIC, 0)


def rolled(
    directory: object, context: SinkContext | None = None, pace: VirtualPace | None = None,
    /, **config: str,
) -> RolledFileSinkTask:  # fmt: skip
    task = RolledFileSinkTask(pace or VirtualPace())
    task.initialize(context or SinkContext())
    task.start({"directory": str(directory), "rotate.interval.ms": "0", **config})
    task.open([HERE])
    return task


def files(directory: Path) -> dict[str, str]:
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in found}


def test_one_file_gets_a_line_a_record_as_javas_sink_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "out"
    task = FileStreamSinkTask()
    task.initialize(SinkContext())
    task.start({"file": str(path)})

    values: list[Any] = ["text", 7, True, None, {"a": [1, None]}, struct(ITEM, 1, "x"), b"raw"]
    task.put([record(value) for value in values])
    task.flush({})
    shown = path.read_text()
    task.stop()

    assert shown.splitlines() == [
        "text", "7", "true", "null", "{a=[1, null]}", "Struct{id=1,name=x}", "raw",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e10, "1.0E10"),
        (0.1, "0.1"),
        (1e-5, "1.0E-5"),
        (100.0, "100.0"),
        (float("-inf"), "-Infinity"),
        ([1e7, None], "[1.0E7, null]"),
        ({"a": 1e7}, "{a=1.0E7}"),
        (struct(Schema.struct({"f": FLOAT32, "d": FLOAT64}), 16777216.0, 1e7),
         "Struct{f=1.6777216E7,d=1.0E7}"),
    ],
)  # fmt: skip
def test_doubles_are_written_as_java_writes_them(value: object, text: str) -> None:
    assert java_text(value) == text


def test_files_roll_by_records_and_are_named_by_offsets(tmp_path: Path) -> None:
    task = rolled(tmp_path, **{"flush.size": "2"})

    task.put([record(f"v{n}", offset=n) for n in range(10, 15)])
    allowed = task.pre_commit({HERE: committed(15)})

    assert files(tmp_path) == {
        "orders/orders-0-0000000010-0000000011.txt": "v10\nv11\n",
        "orders/orders-0-0000000012-0000000013.txt": "v12\nv13\n",
    }
    assert allowed == {HERE: committed(14)}


def test_files_roll_by_size_and_by_time(tmp_path: Path) -> None:
    pace = VirtualPace()
    task = rolled(tmp_path, None, pace, **{"rotate.size.bytes": "6", "rotate.interval.ms": "5000"})

    task.put([record("abc", offset=n) for n in range(3)])
    assert len(files(tmp_path)) == 1
    pace.now += 5
    task.put([])

    assert [range_of(name) for name in files(tmp_path)] == [
        RolledOffsets(TOPIC, 0, 0, 1),
        RolledOffsets(TOPIC, 0, 2, 2),
    ]


def test_paths_are_partitioned_and_cannot_leave_the_directory(tmp_path: Path) -> None:
    config = {"path.format": "${topic}/c=${field:c}", "format": "jsonl", "flush.size": "3"}
    task = rolled(tmp_path / "out", **config)

    task.put([record({"c": c}, offset=n) for n, c in enumerate(["at", "../..", "at"])])

    assert files(tmp_path) == {
        "out/orders/c=at/orders-0-0000000000-0000000002.jsonl": '{"c":"at"}\n{"c":"at"}\n',
        "out/orders/c=..%2F../orders-0-0000000000-0000000002.jsonl": '{"c":"../.."}\n',
    }


def test_a_restart_goes_on_behind_the_last_file(tmp_path: Path) -> None:
    first = rolled(tmp_path, **{"flush.size": "2"})
    first.put([record(str(n), offset=n) for n in range(5)])
    before = files(tmp_path)

    context = SinkContext()
    second = rolled(tmp_path, context, **{"flush.size": "2"})
    second.put([record(str(n), offset=n) for n in range(6)])

    assert context.seeks == {HERE: 4}
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    assert "".join(after.values()) == "0\n1\n2\n3\n4\n5\n"


class Dying(LocalStorage):
    """A disk whose machine dies after some writes and renames."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def _step(self) -> None:
        if self._steps == 0:
            raise OSError("the machine died")
        self._steps -= 1

    def write(self, path: str, data: bytes) -> None:
        self._step()
        super().write(path, data)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)


@given(st.integers(0, 30), st.integers(1, 4))
@settings(max_examples=40)
def test_each_record_is_in_one_file_wherever_the_task_dies(
    tmp_path_factory: pytest.TempPathFactory, steps: int, flush_size: int
) -> None:
    folder = tmp_path_factory.mktemp("rolled")
    config = {"path.format": "${field:c}", "format": "jsonl", "flush.size": str(flush_size)}
    records = [record({"c": n % 3, "n": n}, offset=n) for n in range(12)]
    first = rolled(folder, **config)
    first._storage = Dying(steps)
    with suppress(RetriableError):
        first.put(records)
    in_files = [found.end + 1 for name in files(folder) if (found := range_of(name))]
    for allowed in first._written.values():
        assert allowed <= max(in_files)

    second = rolled(folder, **config)
    second.put(records)
    second.put([record({"c": 0, "n": n}, offset=n) for n in range(12, 16)])

    numbers = [
        json.loads(line)["n"]
        for name, text in files(folder).items()
        if not name.startswith(DRAFTS)
        for line in text.splitlines()
    ]
    assert sorted(numbers)[:12] == list(range(12))
    assert len(set(numbers)) == len(numbers)
    assert not [name for name in files(folder) if name.startswith(DRAFTS)]


class Watched(LocalStorage):
    """A disk where somebody looks for files after each step."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder = folder
        self._pattern = pattern
        self.seen: list[list[str]] = []

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        self._look()

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._look()

    def _look(self) -> None:
        self.seen.append(sorted(path.name for path in self._folder.rglob(self._pattern)))


@pytest.mark.parametrize(
    ("config", "ending"), [({"format": "jsonl"}, "jsonl"), ({"compression": "gz"}, "txt.gz")]
)
def test_a_reader_that_looks_for_an_extension_finds_no_draft(
    tmp_path: Path, config: dict[str, str], ending: str
) -> None:
    task = rolled(tmp_path, **{"flush.size": "2"}, **config)
    disk = task._storage = Watched(tmp_path, f"*.{ending}")

    task.put([record("x", offset=n) for n in range(4)])

    one, two = (f"orders-0-000000000{n}-000000000{n + 1}.{ending}" for n in (0, 2))
    assert disk.seen == [[], [one], [one], [one, two]]


def test_a_roll_that_could_not_be_written_keeps_its_name(tmp_path: Path) -> None:
    task = rolled(tmp_path, **{"flush.size": "2", "path.format": "${field:c}", "format": "jsonl"})
    records = [record({"c": n}, offset=n) for n in range(4)]
    task._storage = Dying(3)
    with pytest.raises(RetriableError, match="the machine died"):
        task.put(records[:2])
    task._storage = LocalStorage()

    task.put(records)

    ranges = {range_of(name) for name in files(tmp_path)}
    assert ranges == {RolledOffsets(TOPIC, 0, 0, 1), RolledOffsets(TOPIC, 0, 2, 3)}


def test_csv_and_parquet_have_the_columns_that_occur(tmp_path: Path) -> None:
    rows = [{"id": 1, "name": "x"}, {"id": 2, "more": 2.5}]
    for format_ in ("csv", "parquet"):
        task = rolled(tmp_path / format_, format=format_, **{"flush.size": "2"})
        task.put([record(row, offset=n) for n, row in enumerate(rows)])

    (sheet,) = (tmp_path / "csv/orders").iterdir()
    with sheet.open(newline="") as file:
        assert list(csv.reader(file)) == [["id", "name", "more"], ["1", "x", ""], ["2", "", "2.5"]]
    (table,) = (tmp_path / "parquet/orders").iterdir()
    assert pyarrow.parquet.read_table(table).to_pylist() == [
        {"id": 1, "name": "x", "more": None},
        {"id": 2, "name": None, "more": 2.5},
    ]


def test_compressed_files_say_so_in_their_names(tmp_path: Path) -> None:
    task = rolled(tmp_path, compression="gz", **{"flush.size": "1"})

    task.put([record("x", offset=0)])

    (path,) = (tmp_path / "orders").iterdir()
    assert path.name == "orders-0-0000000000-0000000000.txt.gz"
    assert gzip.decompress(path.read_bytes()) == b"x\n"


def test_a_bad_record_is_reported_and_its_offset_is_in_the_range(tmp_path: Path) -> None:
    reporter = Reporter()
    task = rolled(tmp_path, SinkContext(reporter), format="csv", **{"flush.size": "2"})

    values: list[Any] = [{"a": 1}, "no fields", {"a": 2}]
    task.put([record(value, offset=n) for n, value in enumerate(values)])

    assert [each.offset for each, _ in reporter.reports] == [1]
    assert files(tmp_path) == {"orders/orders-0-0000000000-0000000002.csv": "a\n1\n2\n"}
    failing = rolled(tmp_path / "other", format="csv")
    with pytest.raises(DataError, match="record orders-0@5: csv needs values with fields"):
        failing.put([record("x", offset=5)])


def test_targets_on_a_file_system_of_fsspec() -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    context = SinkContext()
    task = rolled("memory://sink-test", **{"flush.size": "1"})
    task.put([record("x", offset=0)])
    rolled("memory://sink-test", context, **{"flush.size": "1"})

    name = "/sink-test/orders/orders-0-0000000000-0000000000.txt"
    assert system.cat_file(name) == b"x\n"
    assert context.seeks == {HERE: 1}
    system.rm("/sink-test", recursive=True)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "name either file"),
        ({"file": "x", "format": "csv"}, "csv needs directory"),
        ({"directory": "x", "path.format": "${nobody}"}, r"path\.format knows"),
        ({"directory": "x", "path.format": "../x"}, "must lie below the directory"),
    ],
)
def test_settings_that_cannot_work_are_refused(config: dict[str, str], reason: str) -> None:
    connector = FileStreamSinkConnector()
    connector.start(config)

    with pytest.raises(ConfigError, match=reason):
        connector.task_class()


def test_offsets_in_the_names_of_files_are_not_altered(tmp_path: Path) -> None:
    rolled = {"directory": str(tmp_path), "topics": "t"}
    with pytest.raises(ConnectError, match="move the topic's files away"):
        FileStreamSinkConnector().alter_offsets(rolled, {})
    assert FileStreamSinkConnector().alter_offsets({"file": "out", "topics": "t"}, {})
