"""The file source: follows files and gives their lines, JSON lines, CSV or Parquet rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
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
    Task,
)
from moldau.connectors.file.following import Follower
from moldau.connectors.file.formats import (
    Decode,
    Format,
    compression_of,
    csv_decoder,
    csv_fields,
    decode_json,
    decode_text,
)
from moldau.connectors.file.lines import QuoteJoiner
from moldau.connectors.file.parquet import read_rows
from moldau.connectors.file.settings import FileSourceConfig, OnBadLine
from moldau.connectors.file.storage import storage_of
from moldau.connectors.pace import Pace
from moldau.connectors.promise import AT_LEAST_ONCE, promised

_log = logging.getLogger(__name__)
_IDLE_S = 0.5


class FileStreamSourceConnector(SourceConnector):
    """One task that reads the file or the files of a pattern."""

    task_modules = ("moldau.connectors.file.source",)
    config_model = FileSourceConfig
    java_names: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
    )

    def task_class(self) -> type[Task]:
        return FileStreamSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)]

    @classmethod
    def guarantee(cls, props: Mapping[str, str]) -> str:
        """What the config promises, and why."""
        return promised(AT_LEAST_ONCE, "lines may come twice after a crash", props)

    def dry_run(self, props: Mapping[str, str]) -> list[Problem]:
        """Files that are not there: the task waits for them."""
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
    """Reads the files in the order of their names, and again what was added to them."""

    java_name = "org.apache.kafka.connect.file.FileStreamSourceTask"

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._followers: dict[str, Follower] = {}
        self._joiners: dict[str, QuoteJoiner] = {}
        self._finished: set[str] = set()
        self._records: Iterator[SourceRecord] = iter(())
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

    def poll(self) -> list[SourceRecord] | None:
        """The next records; at the end of all files None, after a wait."""
        wait = self._due - self._pace.monotonic()
        if wait > 0:
            self._pace.wait(min(wait, _IDLE_S))
            if wait > _IDLE_S:
                return None
        try:
            batch = list(islice(self._records, self._config.batch_size))
            if not batch:
                self._records = self._all()
                batch = list(islice(self._records, self._config.batch_size))
        except (OSError, EOFError) as error:
            self._records = iter(())
            for follower in self._followers.values():
                follower.reopen()
            raise RetriableError(f"cannot read {self._where}: {error}") from error
        if not batch:
            self._due = self._pace.monotonic() + self._config.poll_interval_ms / 1000
        return batch or None

    def _all(self) -> Iterator[SourceRecord]:
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

    def _lines(self, path: str) -> Iterator[SourceRecord]:
        follower = self._followers.get(path)
        if follower is None:
            compression = compression_of(path, self._config.compression)
            follower = Follower(self._storage, path, compression, self._stored(path))
            self._followers[path] = follower
            self._joiners[path] = QuoteJoiner()
        partition = {"filename": path}
        decode: Decode | None = None
        joiner = self._joiners[path]
        for line, offset in follower.lines():
            if self._config.format is Format.CSV:
                if follower.is_first_line and not self._config.header:
                    decode = None
                    continue
                whole = joiner.feed(line)
                if whole is None:
                    continue
                line = whole
            decode = decode or self._decoder(follower)
            record = self._record(decode, line, partition, offset)
            if record is not None:
                yield record

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
        return SourceRecord(partition, offset, self._config.topic, value_schema=schema, value=value)

    def _parquet(self, path: str) -> Iterator[SourceRecord]:
        """A Parquet file is complete when it is there; its position counts rows."""
        if path in self._finished or self._storage.state(path) is None:
            return
        stored = self._stored(path)
        position = int(stored["position"]) if stored else 0
        with self._storage.read(path) as file:
            for rows in read_rows(file, position, self._config.batch_size):
                for value in rows:
                    position += 1
                    yield SourceRecord(
                        {"filename": path},
                        {"position": position},
                        self._config.topic,
                        value_schema=value.schema,
                        value=value,
                    )
        self._finished.add(path)
