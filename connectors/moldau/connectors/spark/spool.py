"""Bring rows from Spark's tasks to the process that writes them, and from a process to the tasks.

Each task writes its rows into a file of the spool, a folder beside the checkpoint, and returns the
file's name. If the rows of a task take less than `_INLINE_BYTES`, it returns the rows themselves,
so a small batch needs no file. Neither Spark's driver nor this process holds a whole batch.

Invariants: rows keep the order of Spark's partitions; only files of tasks that Spark counts are
read, so a task that ran twice gives its rows once; the spool is removed after the batch, and what a
crash left of it is removed before the next batch, or by the same one when it runs again.

In the other direction, rows that this process reads from a database are given to Spark at once if
they are few. More are written into files of the spool, and Spark's tasks read these. The files stay
until the rows are written, and `SourceSpool.remove` removes them, also those that a crash left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from itertools import chain
from typing import Any, Final, Protocol

from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from moldau.spark.reach import Unavailable

LOG: Final = logging.getLogger("moldau.connectors.spark")
TABLE_BYTES: Final = 64 * 1024 * 1024
"""The size at which `SpooledRows.tables` ends a table: about what a sink holds at once."""
_INLINE_BYTES: Final = 1024 * 1024
_PART_COLUMNS: Final = "rows BINARY, file STRING"
"""The columns of a part, which is what a task returns: either its rows or the name of its file."""

_MEMORY_BYTES: Final = 16 * 1024 * 1024
_FILE_BYTES: Final = 64 * 1024 * 1024


class SpooledRows:
    """The rows of one batch. They can be read more than once while the spool exists."""

    def __init__(self, system: Any, parts: Sequence[Any], schema: Any) -> None:
        self._system = system
        self._parts = parts
        self.schema = schema

    def batches(self) -> Iterator[Any]:
        """Yield Arrow batches of some thousand rows each."""
        arrow = import_module("pyarrow")
        for part in self._parts:
            with self._open(part) as file, arrow.ipc.open_stream(file) as stream:
                for batch in stream:
                    yield arrow.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _open(self, part: Any) -> Any:
        if part.file is None:
            return import_module("pyarrow").BufferReader(part.rows)
        return self._system.open_input_file(part.file)

    def reader(self) -> Any:
        """Return a RecordBatchReader of the batches."""
        return import_module("pyarrow").RecordBatchReader.from_batches(self.schema, self.batches())

    def table(self) -> Any:
        """Return all rows as one table, for work that needs them at once."""
        return import_module("pyarrow").Table.from_batches(self.batches(), self.schema)

    def tables(self) -> Iterator[Any]:
        """Yield tables of about `TABLE_BYTES`, at least one."""
        arrow = import_module("pyarrow")
        held: list[Any] = []
        has_yielded = False
        for batch in self.batches():
            held.append(batch)
            if sum(each.nbytes for each in held) >= TABLE_BYTES:
                yield arrow.Table.from_batches(held, self.schema)
                held, has_yielded = [], True
        if held or not has_yielded:
            yield arrow.Table.from_batches(held, self.schema)


@contextmanager
def spooled_rows(batch: Any, spool: str, *, all_nullable: bool = False) -> Iterator[SpooledRows]:
    """Run the Spark job of a batch, and give access to its rows until the block ends.

    `spool` is a folder, or an address of fsspec, that all of Spark's machines see. If fsspec cannot
    use the address here, all rows are held in memory. With `all_nullable` no column is required:
    Spark requires a literal, and a table that evolves has rows without it.
    """
    folder = emptied_spool(spool)
    if folder is None:
        parts = batch.mapInArrow(_task_writer(None), _PART_COLUMNS).collect()
        yield SpooledRows(None, parts, _schema(batch, None, parts, all_nullable=all_nullable))
        return
    system, path = folder
    try:
        parts = batch.mapInArrow(_task_writer(spool), _PART_COLUMNS).collect()
        yield SpooledRows(system, parts, _schema(batch, system, parts, all_nullable=all_nullable))
    finally:
        remove_folder(system, path)


def emptied_spool(address: str) -> tuple[Any, str] | None:
    """Remove what a crash left in a spool. Return its file system, and the path in it; None, with a
    line in the log, if this process cannot write there."""
    try:
        system, path = file_system(address)
        remove_folder(system, path)
    except Exception as error:
        # Spark may have a login for the address that fsspec does not have.
        LOG.warning(
            "a batch is held in memory, for its rows cannot be kept beside the checkpoint: %s",
            error,
        )
        return None
    return system, path


def file_system(address: str) -> tuple[Any, str]:
    """Return Arrow's file system for a path or an address of fsspec, and the path in it."""
    fs = import_module("pyarrow.fs")
    if "://" not in address:
        return fs.LocalFileSystem(), address
    try:
        found, path = import_module("fsspec.core").url_to_fs(address)
    except (ImportError, ValueError, OSError) as error:
        raise ConfigError(
            f"{error}: {install_command('fsspec')}, and the package for that protocol",
            address=address,
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path


def _task_writer(spool: str | None) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that each task of Spark runs on its rows. It yields the task's part."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        held: list[Any] = []
        size_bytes = 0
        for batch in batches:
            held.append(batch)
            size_bytes += batch.nbytes
            if spool is not None and size_bytes > _INLINE_BYTES:
                yield _part(None, _write_file(spool, held, batches))
                return
        if held:
            yield _part(_encode(held), None)

    return write


def _encode(batches: Sequence[Any]) -> bytes:
    arrow = import_module("pyarrow")
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _write_file(spool: str, held: Sequence[Any], more: Iterator[Any]) -> str:
    """Write a file of the spool, and return its path.

    Each attempt of a task has a file of its own: Spark may run two attempts at once.
    """
    context = import_module("pyspark").TaskContext.get()
    system, path = file_system(spool)
    system.create_dir(path, recursive=True)
    file = f"{path}/{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}.arrow"
    arrow = import_module("pyarrow")
    with (
        system.open_output_stream(file) as sink,
        arrow.ipc.new_stream(sink, held[0].schema) as stream,
    ):
        for batches in (held, more):
            for batch in batches:
                stream.write_batch(batch)
    return file


def _part(rows: bytes | None, file: str | None) -> Any:
    arrow = import_module("pyarrow")
    return arrow.RecordBatch.from_arrays(
        [arrow.array([rows], arrow.binary()), arrow.array([file], arrow.string())],
        names=["rows", "file"],
    )


def _schema(batch: Any, system: Any, parts: Sequence[Any], *, all_nullable: bool) -> Any:
    schema = _first_schema(batch, system, parts)
    if not all_nullable:
        return schema
    return import_module("pyarrow").schema([each.with_nullable(True) for each in schema])


def _first_schema(batch: Any, system: Any, parts: Sequence[Any]) -> Any:
    """Return the schema of the first part. A batch without rows has the schema of its columns."""
    if not parts:
        return batch.limit(0).toArrow().schema
    arrow = import_module("pyarrow")
    if parts[0].file is None:
        return arrow.ipc.open_stream(parts[0].rows).schema
    try:
        with system.open_input_file(parts[0].file) as file:
            return arrow.ipc.open_stream(file).schema
    except FileNotFoundError:
        raise file_not_seen(parts[0].file) from None


def file_not_seen(path: str) -> ConfigError:
    """Return the error for a file of the spool that another machine wrote and this one lacks."""
    return Unavailable(
        "rows that another process wrote beside the checkpoint are not there: checkpoint.location "
        "has to be a place that all of Spark's machines see",
        path=path,
    )


def remove_folder(system: Any, path: str) -> None:
    """Remove a folder with everything in it. Do nothing if it does not exist."""
    with suppress(FileNotFoundError):
        system.delete_dir(path)


class ArrowRows(Protocol):
    """Rows in Arrow batches, which can be read once."""

    schema: Any

    def batches(self) -> Iterator[Any]: ...


class SourceSpool:
    """The spool of one read. Without an address all rows are held in memory."""

    def __init__(self, session: Any, address: str | None) -> None:
        self._session = session
        self._address = address
        self._is_written = False

    def to_spark(self, rows: ArrowRows) -> Any:
        """Return the rows as a DataFrame, which can be read until `remove`."""
        arrow = import_module("pyarrow")
        batches = rows.batches()
        held: list[Any] = []
        size_bytes = 0
        for batch in batches:
            held.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > _MEMORY_BYTES and self._is_usable():
                return self._spooled(chain(held, batches), rows.schema)
        return self._session.createDataFrame(arrow.Table.from_batches(held, rows.schema))

    def remove(self) -> None:
        """Remove the files. The rows can no longer be read."""
        if self._is_written:
            assert self._address is not None
            remove_folder(*file_system(self._address))
            self._is_written = False

    def _is_usable(self) -> bool:
        """Whether the spool can keep the rows. If not, all are held in memory from now on."""
        if self._address is not None:
            self._is_written = emptied_spool(self._address) is not None
            if not self._is_written:
                self._address = None
        return self._is_written

    def _spooled(self, batches: Iterator[Any], schema: Any) -> Any:
        assert self._address is not None
        files = _write_files(self._address, batches, schema)
        columns = self._session.createDataFrame(schema.empty_table()).schema
        # Task n reads file n.
        numbers = self._session.range(0, len(files), 1, len(files))
        return numbers.mapInArrow(_task_reader(self._address, files), columns)


def _write_files(address: str, batches: Iterator[Any], schema: Any) -> list[str]:
    """Write the batches into files of about `_FILE_BYTES`. Return their paths in order."""
    arrow = import_module("pyarrow")
    system, path = file_system(address)
    system.create_dir(path, recursive=True)
    files: list[str] = []
    for first in batches:
        files.append(f"{path}/read-{len(files)}.arrow")
        with ExitStack() as stack:
            sink = stack.enter_context(system.open_output_stream(files[-1]))
            stream = stack.enter_context(arrow.ipc.new_stream(sink, schema))
            size_bytes = 0
            for batch in chain([first], batches):
                stream.write_batch(batch)
                size_bytes += batch.nbytes
                if size_bytes > _FILE_BYTES:
                    break
    return files


def _task_reader(address: str, files: list[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that each task of Spark runs on the numbers of its files."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        arrow = import_module("pyarrow")
        system, _ = file_system(address)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    source = system.open_input_file(files[number])
                except FileNotFoundError:
                    raise file_not_seen(files[number]) from None
                with source, arrow.ipc.open_stream(source) as stream:
                    yield from stream

    return read
