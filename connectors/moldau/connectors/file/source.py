"""The file source: follows files and reads their lines, JSON lines, CSV or Parquet rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from moldau.connect.api import (
    ConnectError,
    DataError,
    ExactlyOnceSupport,
    Problem,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
    SourceValues,
    Task,
)
from moldau.connect.data import STRING
from moldau.connectors.file.following import Follower
from moldau.connectors.file.formats import (
    Decode,
    Format,
    compression_of,
    csv_decoder,
    csv_fields,
    decode_json,
    decode_text,
    decode_texts,
)
from moldau.connectors.file.lines import Block, QuoteJoiner
from moldau.connectors.file.parquet import read_rows
from moldau.connectors.file.settings import FileSourceConfig, OnBadLine
from moldau.connectors.file.storage import storage_of
from moldau.connectors.pace import Pace
from moldau.connectors.promise import AT_LEAST_ONCE, promised

_log = logging.getLogger(__name__)
_IDLE_S = 0.5


class FileStreamSourceConnector(SourceConnector):
    """Reads one file, or all files of a pattern, in a single task."""

    task_modules = ("moldau.connectors.file.source",)
    config_model = FileSourceConfig
    file_settings = ("file", "file.glob")
    java_names: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
    )

    def task_class(self) -> type[Task]:
        return FileStreamSourceTask

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """Return the delivery guarantee of the config, with the reason."""
        return promised(AT_LEAST_ONCE, "lines may come twice after a crash", props)

    def dry_run(self, props: Mapping[str, str]) -> list[Problem]:
        """Return missing files as problems. A running task would wait for them."""
        config = FileSourceConfig.read(props)
        try:
            if config.file and storage_of(config.file).state(config.file) is None:
                return [Problem("file", f"there is no file {config.file} -> correct the path")]
            if config.pattern and not storage_of(config.pattern).find(config.pattern):
                return [Problem("file.glob", f"no file fits {config.pattern} -> correct the path")]
        except (OSError, ConnectError) as error:
            return [Problem("file" if config.file else "file.glob", str(error))]
        return []

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        for partition, offset in offsets:
            if set(partition) != {"filename"}:
                raise ConnectError(f'{partition} is no partition of a file: {{"filename": "..."}}')
            position = 0 if offset is None else offset.get("position")
            if not isinstance(position, int) or position < 0:
                raise ConnectError(f"{partition}: position must be a whole number from 0 on")
        return True


class FileStreamSourceTask(SourceTask):
    """Reads the files in the order of their names, then again what was added to them."""

    java_name = "org.apache.kafka.connect.file.FileStreamSourceTask"

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._followers: dict[str, Follower] = {}
        self._joiners: dict[str, QuoteJoiner] = {}
        self._finished: set[str] = set()
        self._batches: Iterator[Sequence[SourceRecord]] = iter(())
        self._due = 0.0

    def start(self, props: Mapping[str, str]) -> None:
        self._config = FileSourceConfig.of(props)
        self._where = self._config.file or self._config.pattern or ""
        self._storage = storage_of(self._where)
        if self._config.file and self._storage.state(self._where) is None:
            _log.warning("there is no file %s: it is read once it is there", self._where)

    def stop(self) -> None:
        self._pace.stop()
        for follower in self._followers.values():
            follower.close()

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records. At the end of all files wait, then return None."""
        wait = self._due - self._pace.monotonic()
        if wait > 0:
            self._pace.wait(min(wait, _IDLE_S))
            if wait > _IDLE_S:
                return None
        try:
            batch = next(self._batches, None)
            if batch is None:
                self._batches = self._all()
                batch = next(self._batches, None)
        except (OSError, EOFError) as error:
            self._batches = iter(())
            for follower in self._followers.values():
                follower.reopen()
            raise RetriableError(f"cannot read {self._where}: {error}") from error
        if batch is None:
            self._due = self._pace.monotonic() + self._config.poll_interval_ms / 1000
        return batch

    def _all(self) -> Iterator[Sequence[SourceRecord]]:
        """Yield batches, none of them empty. Each is of one block of a file, so that an error in
        the next block loses nothing."""
        for path in self._paths():
            if self._config.format is Format.PARQUET:
                yield from self._parquet(path)
            else:
                yield from self._lines(path)

    def _paths(self) -> list[str]:
        if self._config.file:
            return [self._config.file]
        assert self._config.pattern is not None
        return self._storage.find(self._config.pattern)

    def _stored(self, path: str) -> dict[str, Any] | None:
        return self.context.offset_storage_reader.offset({"filename": path})

    def _lines(self, path: str) -> Iterator[Sequence[SourceRecord]]:
        follower = self._followers.get(path)
        if follower is None:
            compression = compression_of(path, self._config.compression)
            follower = Follower(self._storage, path, compression, self._stored(path))
            self._followers[path] = follower
            self._joiners[path] = QuoteJoiner()
        decode: Decode | None = None
        for block in follower.blocks():
            if block.start == 0 or decode is None:
                decode = self._decoder(follower)
            for piece in block.pieces(self._config.batch_size):
                batch = self._texts(path, piece) or self._decoded(path, decode, piece)
                if batch:
                    yield batch

    def _texts(self, path: str, block: Block) -> SourceValues | None:
        """Return the lines of a block as values. None for another format, or if a line is bad."""
        if self._config.format is not Format.LINES:
            return None
        try:
            texts = decode_texts(block.lines())
        except UnicodeDecodeError:
            return None
        return SourceValues(
            self._config.topic, {"filename": path}, STRING, texts, block.offsets,
            block.last_offset(), self._pace.wall_ms(),
        )  # fmt: skip

    def _decoded(self, path: str, decode: Decode, block: Block) -> list[SourceRecord]:
        """Return the records of a block, decoded line by line."""
        partition = {"filename": path}
        is_csv, joiner = self._config.format is Format.CSV, self._joiners[path]
        has_names = block.start == 0 and is_csv and not self._config.header
        found = []
        for index, (line, offset) in enumerate(zip(block.lines(), block.offsets(), strict=True)):
            if has_names and index == 0:
                continue
            whole = joiner.feed(line) if is_csv else line
            record = None if whole is None else self._record(decode, whole, partition, offset)
            if record is not None:
                found.append(record)
        return found

    def _decoder(self, follower: Follower) -> Decode:
        if self._config.format is Format.LINES:
            return decode_text
        if self._config.format is Format.JSONL:
            return decode_json
        delimiter = self._config.delimiter
        header = self._config.header or csv_fields(follower.header(), delimiter)
        return csv_decoder(header, delimiter)

    def _record(
        self, decode: Decode, line: bytes, partition: dict[str, Any], offset: dict[str, Any]
    ) -> SourceRecord | None:
        if not line and self._config.format is not Format.LINES:
            return None
        try:
            schema, value = decode(line)
        except ValueError as error:
            where = f"{partition['filename']} before position {offset['position']}"
            if self._config.on_bad_line is OnBadLine.SKIP:
                _log.warning("%s: a line is skipped: %s", where, error)
                return None
            raise DataError(
                f"{where}: {error} -> correct the file, or set on.bad.line=skip"
            ) from error
        return SourceRecord(
            partition, offset, self._config.topic, value_schema=schema, value=value,
            timestamp=self._pace.wall_ms(),
        )  # fmt: skip

    def _parquet(self, path: str) -> Iterator[Sequence[SourceRecord]]:
        """Yield a Parquet file's rows. It is complete when it exists; its position counts rows."""
        if path in self._finished or self._storage.state(path) is None:
            return
        stored = self._stored(path)
        position = int(stored["position"]) if stored else 0
        with self._storage.read(path) as file:
            for rows in read_rows(file, position, self._config.batch_size):
                yield [
                    SourceRecord(
                        {"filename": path},
                        {"position": place},
                        self._config.topic,
                        value_schema=value.schema,
                        value=value,
                        timestamp=self._pace.wall_ms(),
                    )
                    for place, value in enumerate(rows, position + 1)
                ]
                position += len(rows)
        self._finished.add(path)
