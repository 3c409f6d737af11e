"""The file sink: appends to one file as Kafka's does, or writes rolled files exactly once.

Rolled files: the records of a partition are kept until the roll is full. Then all its files are
written as drafts, durable, and renamed. A roll with one renamed file is complete, so a task that
opens the partition renames the remaining drafts of such rolls, removes all other drafts, and
continues after the highest offset in a file name. The offsets committed to Kafka follow and are
never ahead of the files.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, ClassVar

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.connect.api import (
    ConnectError,
    DataError,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    Task,
    ValueSinkTask,
)
from moldau.connectors.file.formats import (
    EXTENSIONS,
    Compression,
    Format,
    compressed,
    csv_text,
    java_text,
    json_line,
    to_plain,
)
from moldau.connectors.file.naming import (
    DRAFT_SUFFIX,
    DRAFTS,
    Roll,
    RolledOffsets,
    folder_of,
    range_of,
)
from moldau.connectors.file.parquet import write_rows
from moldau.connectors.file.settings import FileSinkConfig
from moldau.connectors.file.storage import Storage, storage_of
from moldau.connectors.pace import Pace
from moldau.connectors.promise import AT_LEAST_ONCE, EXACTLY_ONCE, promised

_log = logging.getLogger(__name__)


class FileStreamSinkConnector(SinkConnector):
    """Writes topics to files."""

    task_modules = ("moldau.connectors.file.sink",)
    config_model = FileSinkConfig
    file_settings = ("file", "directory")
    java_names: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
    )

    def task_class(self) -> type[Task]:
        config = FileSinkConfig.of(self.props)
        return FileStreamSinkTask if config.file else RolledFileSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props) for _ in range(max_tasks)]

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the delivery guarantee of the config, with the reason."""
        if FileSinkConfig.read(props).file:
            return promised(AT_LEAST_ONCE, "lines may come twice after a crash", props)
        return promised(EXACTLY_ONCE, "offsets are in the names of the files", props)

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Reject new offsets for rolled files: the offsets are in the names of the files."""
        config = FileSinkConfig.of(props)
        if config.directory:
            raise ConnectError(
                "the offsets of this connector are in the names of the files below "
                f"{config.directory} -> move the topic's files away, or give another directory; "
                "then it begins behind the last file that is left"
            )
        return True


class FileStreamSinkTask(ValueSinkTask):
    """Appends a line for each record to a file. After a crash lines may come twice."""

    java_name = "org.apache.kafka.connect.file.FileStreamSinkTask"

    _file: BinaryIO | None = None

    def start(self, props: Mapping[str, str]) -> None:
        self._config = FileSinkConfig.of(props)
        assert self._config.file is not None
        self._path = self._config.file
        try:
            self._file = storage_of(self._path).append(self._path)
        except OSError as error:
            raise RetriableError(f"cannot open {self._path}: {error}") from error

    def stop(self) -> None:
        """Close the file. Records that a full disk rejected were not committed and come again."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def put(self, records: list[SinkRecord]) -> None:
        self.put_values([record.value for record in records])

    def put_values(self, values: Sequence[Any]) -> None:
        assert self._file is not None
        lines = _lines(self._config.format, values)
        try:
            self._file.write(lines)
        except OSError as error:
            raise RetriableError(f"cannot write {self._path}: {error}") from error

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        assert self._file is not None
        try:
            self._file.flush()
        except OSError as error:
            raise RetriableError(f"cannot write {self._path}: {error}") from error


class RolledFileSinkTask(SinkTask):
    """Writes rolled, partitioned files, each record exactly once."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._rolls: dict[TopicPartition, Roll] = {}
        self._written: dict[TopicPartition, int] = {}

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = FileSinkConfig.of(props)
        assert config.directory is not None
        self._directory = config.directory.rstrip("/")
        self._limits = config.limits()
        self._storage: Storage = storage_of(self._directory)
        packed = {Compression.GZ: ".gz", Compression.ZST: ".zst"}.get(config.compression, "")
        self._extension = EXTENSIONS[config.format] + packed

    def stop(self) -> None:
        self._pace.stop()

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Complete or remove the rolls that another task left, and continue after the last file."""
        wanted = set(partitions)
        drafts = f"{self._directory}/{DRAFTS}/"
        finished: set[RolledOffsets] = set()
        left: list[tuple[str, RolledOffsets]] = []
        for path in self._storage.below(self._directory):
            found = range_of(path)
            if found is None or TopicPartition(found.topic, found.partition) not in wanted:
                continue
            if path.startswith(drafts):
                left.append((path, found))
            else:
                finished.add(found)
        for path, found in left:
            if found in finished:
                place = path.removeprefix(drafts).removesuffix(DRAFT_SUFFIX)
                self._storage.rename(path, f"{self._directory}/{place}")
            else:
                self._storage.remove(path)
        for partition in wanted:
            self._rolls.pop(partition, None)
            self._written.pop(partition, None)
        for each in finished:
            partition = TopicPartition(each.topic, each.partition)
            self._written[partition] = max(each.end + 1, self._written.get(partition, 0))
        seeks = {p: self._written[p] for p in wanted if p in self._written}
        if seeks:
            self.context.offset(seeks)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Drop records that are in no file. They come again: their offsets were not committed."""
        for partition in partitions:
            self._rolls.pop(partition, None)
            self._written.pop(partition, None)

    def on_log_began_anew(self, partition: TopicPartition, offset: int, expected: int) -> None:
        raise ConnectError(
            f"{partition.topic}-{partition.partition} begins anew at offset {offset}, the files "
            f"and the records before end at {expected}: the topic was deleted and made again, or "
            "lost its end -> move the topic's files out of the directory, or give another one, "
            "and restart the connector"
        )

    def put(self, records: list[SinkRecord]) -> None:
        now_ms = int(self._pace.monotonic() * 1000)
        # Do this first: a roll that could not be written must not grow, or its name would change.
        self._finish_old(now_ms)
        for record in records:
            partition = TopicPartition(record.original_topic, record.original_partition)
            if record.original_offset < self._written.get(partition, 0):
                continue
            roll = self._rolls.get(partition)
            if roll is None:
                roll = self._rolls[partition] = Roll(now_ms)
            if record.original_offset <= roll.end:
                continue
            self._add(roll, record)
            if roll.is_full(self._limits, now_ms):
                self._finish(partition, roll)

    def pre_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return only the offsets of records that are in files."""
        self._finish_old(int(self._pace.monotonic() * 1000))
        return {
            partition: OffsetAndMetadata(min(self._written[partition], offset.offset))
            for partition, offset in offsets.items()
            if partition in self._written
        }

    def _add(self, roll: Roll, record: SinkRecord) -> None:
        try:
            folder = folder_of(self._config.path_format, record)
            content, size = self._content(record.value)
        except DataError as error:
            reporter = self.context.errant_record_reporter
            where = f"{record.original_topic}-{record.original_partition}@{record.original_offset}"
            if reporter is None:
                raise DataError(f"record {where}: {error}") from error
            reporter.report(record, error)
            roll.skip(record.original_offset)
            return
        roll.add(record.original_offset, folder, content, size)

    def _content(self, value: Any) -> tuple[Any, int]:
        if self._config.format in (Format.LINES, Format.JSONL):
            line = _line(self._config.format, value)
            return line, len(line)
        row = to_plain(value)
        if not isinstance(row, dict):
            raise DataError(f"{self._config.format.value} needs values with fields")
        return row, len(json_line(row))

    def _finish_old(self, now_ms: int) -> None:
        for partition, roll in list(self._rolls.items()):
            if roll.is_full(self._limits, now_ms):
                self._finish(partition, roll)

    def _finish(self, partition: TopicPartition, roll: Roll) -> None:
        """Write a roll: all drafts first, then rename them."""
        assert roll.start is not None
        name = RolledOffsets(partition.topic, partition.partition, roll.start, roll.end)
        places = [f"{folder}/{name.file_name(self._extension)}" for folder in roll.contents]
        try:
            for place, contents in zip(places, roll.contents.values(), strict=True):
                self._storage.write(self._draft_of(place), self._encoded(contents))
            for place in places:
                self._storage.rename(self._draft_of(place), f"{self._directory}/{place}")
        except OSError as error:
            raise RetriableError(f"cannot write below {self._directory}: {error}") from error
        del self._rolls[partition]
        self._written[partition] = roll.end + 1

    def _draft_of(self, place: str) -> str:
        return f"{self._directory}/{DRAFTS}/{place}{DRAFT_SUFFIX}"

    def _encoded(self, contents: list[Any]) -> bytes:
        if self._config.format is Format.PARQUET:
            return write_rows(contents)
        if self._config.format is Format.CSV:
            data = csv_text(contents, self._config.delimiter).encode()
        else:
            data = b"".join(contents)
        return compressed(data, self._config.compression)


def _lines(format_: Format, values: Sequence[Any]) -> bytes:
    if format_ is Format.LINES and values and set(map(type, values)) == {str}:
        return "\n".join([*values, ""]).encode()
    return b"".join([_line(format_, value) for value in values])


def _line(format_: Format, value: Any) -> bytes:
    if format_ is Format.JSONL:
        return json_line(value)
    return java_text(value).encode() + b"\n"
