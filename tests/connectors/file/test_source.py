"""The file source: nothing is skipped or doubled while files grow, rotate and shrink."""

from __future__ import annotations

import gzip
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.api import ConnectError, DataError, RetriableError, SourceRecord, SourceValues
from moldau.connectors.file.lines import LineSplitter, QuoteJoiner
from moldau.connectors.file.source import FileStreamSourceConnector, FileStreamSourceTask
from moldau.connectors.file.storage import LocalStorage
from moldau.connectors.pace import Pace
from moldau.errors import ConfigError
from tests.connectors.contexts import Offsets, SourceContext, VirtualPace


def started(offsets: Offsets | None = None, /, **settings: str) -> FileStreamSourceTask:
    task = FileStreamSourceTask(VirtualPace())
    task.initialize(SourceContext(offsets or Offsets()))
    task.start({"topic": "lines", "poll.interval.ms": "0", **settings})
    return task


def drained(task: FileStreamSourceTask) -> list[SourceRecord]:
    records: list[SourceRecord] = []
    while found := task.poll():
        records += found
    return records


def texts(records: list[SourceRecord]) -> list[Any]:
    return [record.value for record in records]


def test_a_growing_file_is_followed_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\r\nhal")
    task = started(file=str(path))

    first = drained(task)
    with path.open("ab") as file:
        file.write(b"f\n")
    second = drained(task)
    task.stop()

    assert texts(first) == ["one", "two"]
    assert texts(second) == ["half"]
    assert first[0].source_partition == {"filename": str(path)}
    assert [(record.source_offset or {})["position"] for record in first] == [4, 9]


@pytest.mark.parametrize("format_", ["lines", "jsonl"])
def test_records_carry_the_time_of_reading(tmp_path: Path, format_: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    task = started(file=str(path), format=format_)
    before = Pace().wall_ms()

    stamps = [record.timestamp for record in drained(task)]
    task.stop()

    assert len(stamps) == 2
    assert all(stamp is not None and before <= stamp <= Pace().wall_ms() for stamp in stamps)


def test_an_empty_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match="topic"):
        started(file="a", topic="")


def test_plain_lines_come_as_values_and_bad_ones_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\xff\nthree\n")
    task = started(file=str(path), **{"batch.size": "1", "on.bad.line": "skip"})

    first, second = task.poll(), task.poll()
    task.stop()

    assert isinstance(first, SourceValues)
    assert first.last_offset == first[0].source_offset
    assert [texts([*batch]) for batch in (first, second) if batch] == [["one"], ["three"]]


def test_a_batch_has_at_most_batch_size_records(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"{n}\n" for n in range(5)))
    task = started(file=str(path), **{"batch.size": "2"})

    batches = [task.poll() for _ in range(4)]
    task.stop()

    assert [len(batch or []) for batch in batches] == [2, 2, 1, 0]


def test_a_new_task_goes_on_at_the_stored_position(tmp_path: Path) -> None:
    path, offsets = tmp_path / "log", Offsets()
    path.write_text("a\nb\nc\n")
    first = started(offsets, file=str(path), **{"batch.size": "2"})
    offsets.keep(first.poll() or [])
    first.stop()

    second = started(offsets, file=str(path))
    found = drained(second)
    second.stop()

    assert texts(found) == ["c"]


def test_an_offset_of_kafkas_own_connector_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb\n")
    offsets = Offsets([({"filename": str(path)}, {"position": 2})])

    task = started(offsets, file=str(path))
    found = drained(task)
    task.stop()

    assert texts(found) == ["b"]


def test_a_rotated_file_is_read_to_its_end_before_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\n")
    task = started(file=str(path))
    first = drained(task)

    with path.open("a") as file:
        file.write("b\n")
        path.rename(tmp_path / "log.1")
        file.write("c\n")
    path.write_text("d\n")
    found = drained(task)
    task.stop()

    assert texts(first) == ["a"]
    assert texts(found) == ["b", "c", "d"]
    assert (found[-1].source_offset or {})["position"] == 2


def test_a_file_rotated_while_no_task_ran_is_found_by_its_inode(tmp_path: Path) -> None:
    path, offsets = tmp_path / "log", Offsets()
    path.write_text("a\nb\n")
    first = started(offsets, file=str(path), **{"batch.size": "1"})
    offsets.keep(first.poll() or [])
    first.stop()
    path.rename(tmp_path / "log.1")
    path.write_text("c\n")

    second = started(offsets, file=str(path))
    found = drained(second)
    second.stop()

    assert texts(found) == ["b", "c"]


def test_a_truncated_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a long line\n")
    task = started(file=str(path))
    drained(task)

    with path.open("r+") as file:
        file.truncate()
        file.write("new\n")
    found = drained(task)
    task.stop()

    assert texts(found) == ["new"]


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    task = started(file=str(path))
    assert task.poll() is None

    path.write_text("a\n")
    found = drained(task)
    task.stop()

    assert texts(found) == ["a"]


def test_compressed_files_of_a_pattern_are_read_once_with_their_last_line(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}'))
    packed = zstandard.ZstdCompressor().compress(b'{"a": 3}\n')
    (tmp_path / "2.jsonl.zst").write_bytes(packed)
    offsets = Offsets()
    settings = {"file.glob": f"{tmp_path}/*.jsonl.*", "format": "jsonl"}
    task = started(offsets, **settings)

    found = drained(task)
    offsets.keep(found)
    assert drained(task) == []
    task.stop()
    again = started(offsets, **settings)
    assert drained(again) == []
    (tmp_path / "3.jsonl.gz").write_bytes(gzip.compress(b'{"a": 4}\n'))
    later = drained(again)
    again.stop()

    assert texts(found) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert texts(later) == [{"a": 4}]


def test_csv_has_names_from_its_header_and_fields_over_several_lines(tmp_path: Path) -> None:
    path, offsets = tmp_path / "x.csv", Offsets()
    path.write_text('id;text\n1;"a\nb; ""c"""\n2;d\n')
    settings = {"file": str(path), "format": "csv", "csv.delimiter": ";"}
    first = started(offsets, **settings, **{"batch.size": "1"})
    one = first.poll() or []
    offsets.keep(one)
    first.stop()

    second = started(offsets, **settings)
    two = drained(second)
    second.stop()

    assert texts([*one, *two]) == [{"id": "1", "text": 'a\nb; "c"'}, {"id": "2", "text": "d"}]


def test_parquet_rows_are_structs_and_go_on_by_row(tmp_path: Path) -> None:
    rows = [{"id": n, "tags": [f"t{n}"], "in": {"x": n / 2}} for n in range(5)]
    path, offsets = tmp_path / "x.parquet", Offsets()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    settings = {"file.glob": f"{tmp_path}/*.parquet", "format": "parquet"}
    first = started(offsets, **settings, **{"batch.size": "2"})
    one = first.poll() or []
    offsets.keep(one)
    first.stop()

    second = started(offsets, **settings)
    two = drained(second)
    second.stop()

    assert [record.value.validate().to_dict() for record in [*one, *two]] == rows


def test_a_line_that_cannot_be_read_is_named_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\nno json\n{"a": 2}\n')
    failing = started(file=str(path), format="jsonl")
    skipping = started(file=str(path), format="jsonl", **{"on.bad.line": "skip"})

    with pytest.raises(DataError, match=r"x\.jsonl before position 17: .*on\.bad\.line=skip"):
        drained(failing)
    assert texts(drained(skipping)) == [{"a": 1}, {"a": 2}]
    failing.stop()
    skipping.stop()


def test_files_on_a_file_system_of_fsspec_are_read() -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    system.pipe_file("/source-test/a.txt", b"x\ny\n")
    task = started(**{"file.glob": "memory://source-test/*.txt"})

    found = drained(task)
    task.stop()
    system.rm("/source-test", recursive=True)

    assert texts(found) == ["x", "y"]


def test_settings_and_offsets_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"name a file, or files with file\.glob"):
        started()
    connector = FileStreamSourceConnector()
    assert connector.alter_offsets({}, [({"filename": "x"}, {"position": 5})])
    with pytest.raises(ConnectError, match="is no partition of a file"):
        connector.alter_offsets({}, [({"file": "x"}, None)])


@given(st.lists(st.binary(max_size=6)), st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_the_bytes_come(parts: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(parts)
    pieces = [data[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True)]
    splitter = LineSplitter()

    blocks = [*map(splitter.feed, pieces), splitter.rest()]

    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    found = [line for block in blocks for line in block.lines()]
    assert found == [line.removesuffix(b"\r") for line in expected]
    assert splitter.position == len(data)
    places = [offset["position"] for block in blocks for offset in block.offsets()]
    ends = accumulate(len(line) + 1 for line in expected)
    assert places == [min(end, len(data)) for end in ends]
    for block in blocks:
        small = list(block.pieces(2))
        assert [line for piece in small for line in piece.lines()] == block.lines()
        assert [each for piece in small for each in piece.offsets()] == block.offsets()
        assert all(piece.last_offset() == piece.offsets()[-1] for piece in small)


class Failing(LocalStorage):
    """A disk of which some reads fail, the opening of a file among them."""

    def __init__(self, *fails: int) -> None:
        self.count = 0
        self._fails = fails

    def step(self) -> None:
        self.count += 1
        if self.count in self._fails:
            raise OSError("the disk is away")

    def read(self, path: str) -> BinaryIO:
        self.step()
        return cast(BinaryIO, FailingFile(super().read(path), self))


class FailingFile:
    def __init__(self, file: BinaryIO, disk: Failing) -> None:
        self._file = file
        self._disk = disk
        self.seek, self.close, self.readline = file.seek, file.close, file.readline

    def __enter__(self) -> FailingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int) -> bytes:
        self._disk.step()
        return self._file.read(min(size, 40))


@pytest.mark.parametrize("format_", ["lines", "csv"])
@given(fails=st.sets(st.integers(1, 12), max_size=3))
def test_each_line_comes_once_whichever_read_fails(
    tmp_path_factory: pytest.TempPathFactory, fails: set[int], format_: str
) -> None:
    path = tmp_path_factory.mktemp("failing") / "log"
    path.write_text("n\n" + "".join(f"{n}\n" for n in range(60)))
    task = started(file=str(path), format=format_, **{"batch.size": "3"})
    task._storage = Failing(*fails)

    found: list[SourceRecord] = []
    for _ in range(len(fails) + 1):
        with suppress(RetriableError):
            drain_into(found, task)
    task.stop()

    wanted: list[Any] = [str(n) for n in range(60)]
    if format_ == "csv":
        wanted = [{"n": each} for each in wanted]
    assert texts(found) == (wanted if format_ == "csv" else ["n", *wanted])


def drain_into(found: list[SourceRecord], task: FileStreamSourceTask) -> None:
    """What was polled before an error counts, too."""
    while batch := task.poll():
        found += batch


def test_a_record_of_csv_ends_where_its_quotes_are_closed() -> None:
    joiner = QuoteJoiner()

    assert joiner.feed(b'1,"a') is None
    assert joiner.feed(b'b ""c') is None
    assert joiner.feed(b'd"') == b'1,"a\nb ""c\nd"'
    assert joiner.feed(b"2,x") == b"2,x"
