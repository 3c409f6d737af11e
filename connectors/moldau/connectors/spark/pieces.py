"""The rows of a micro-batch, brought piece by piece to the process that writes them.

Each of Spark's tasks writes its rows into a file of the spool, a folder beside the checkpoint, and
gives back the file's name. Rows of a task that take less than `_INLINE_BYTES` come back themselves,
so a small batch needs no file. Neither Spark's driver nor this process holds a whole batch.

Invariants: rows keep the order of Spark's partitions; only files of tasks that Spark counts are
read, so a task that ran twice gives its rows once; the spool is gone when the batch is over, and
what a crash left of it is removed before the next batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from moldau.errors import ConfigError

LOG: Final = logging.getLogger("moldau.connectors.spark")
PIECE_BYTES: Final = 64 * 1024 * 1024
"""About as much is held at once by a sink that takes tables, not single Arrow batches."""
_INLINE_BYTES: Final = 1024 * 1024
_FOUND: Final = "rows BINARY, file STRING"


class Pieces:
    """The rows of one batch. They can be read more than once while the spool is there."""

    def __init__(self, system: Any, parts: Sequence[Any], schema: Any) -> None:
        self._system = system
        self._parts = parts
        self.schema = schema

    def batches(self) -> Iterator[Any]:
        """Arrow batches of some thousand rows each."""
        arrow = import_module("pyarrow")
        for part in self._parts:
            with self._opened(part) as file, arrow.ipc.open_stream(file) as stream:
                for batch in stream:
                    yield arrow.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _opened(self, part: Any) -> Any:
        if part.file is None:
            return import_module("pyarrow").BufferReader(part.rows)
        return self._system.open_input_file(part.file)

    def reader(self) -> Any:
        """The same as a RecordBatchReader."""
        return import_module("pyarrow").RecordBatchReader.from_batches(self.schema, self.batches())

    def table(self) -> Any:
        """All rows, for what cannot be done piece by piece."""
        return import_module("pyarrow").Table.from_batches(self.batches(), self.schema)

    def tables(self) -> Iterator[Any]:
        """Tables of about `PIECE_BYTES`, at least one."""
        arrow = import_module("pyarrow")
        held: list[Any] = []
        is_told = False
        for batch in self.batches():
            held.append(batch)
            if sum(each.nbytes for each in held) >= PIECE_BYTES:
                yield arrow.Table.from_batches(held, self.schema)
                held, is_told = [], True
        if held or not is_told:
            yield arrow.Table.from_batches(held, self.schema)


def optional(schema: Any) -> Any:
    """The columns, none of which is required. Spark requires a literal, and a table that evolves
    has rows without it."""
    return import_module("pyarrow").schema([each.with_nullable(True) for each in schema])


@contextmanager
def pieces_of(batch: Any, spool: str, *, is_optional: bool = False) -> Iterator[Pieces]:
    """Runs the batch. `spool` is a folder, or an address of fsspec, that Spark's machines share; at
    an address that fsspec cannot use here, all rows come back at once. With `is_optional` no column
    is required."""
    try:
        system, path = file_system(spool)
        _remove(system, path)
    except Exception as error:
        # Spark may reach the address by logins that fsspec does not have.
        LOG.warning("a batch is held in memory, for its rows cannot be kept elsewhere: %s", error)
        parts = batch.mapInArrow(_to_spool(None), _FOUND).collect()
        yield Pieces(None, parts, _schema_of(batch, None, parts, is_optional=is_optional))
        return
    try:
        parts = batch.mapInArrow(_to_spool(spool), _FOUND).collect()
        yield Pieces(system, parts, _schema_of(batch, system, parts, is_optional=is_optional))
    finally:
        _remove(system, path)


def file_system(address: str) -> tuple[Any, str]:
    """Arrow's file system for a path or an address of fsspec, and the path in it."""
    fs = import_module("pyarrow.fs")
    if "://" not in address:
        return fs.LocalFileSystem(), address
    try:
        found, path = import_module("fsspec.core").url_to_fs(address)
    except (ImportError, ValueError, OSError) as error:
        raise ConfigError(
            f"{error}: pip install 'moldau-connectors[fsspec]' and the package for that protocol",
            address=address,
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path


def _to_spool(spool: str | None) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does with its rows."""

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        held: list[Any] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if spool is not None and size > _INLINE_BYTES:
                yield _found(None, _written(spool, held, batches))
                return
        if held:
            yield _found(_inline(held), None)

    return write


def _inline(held: Sequence[Any]) -> bytes:
    arrow = import_module("pyarrow")
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, held[0].schema) as stream:
        for batch in held:
            stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _written(spool: str, held: Sequence[Any], more: Iterator[Any]) -> str:
    """The file's path. An attempt has its own, for Spark may run two of them at once."""
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


def _found(rows: bytes | None, file: str | None) -> Any:
    arrow = import_module("pyarrow")
    return arrow.RecordBatch.from_arrays(
        [arrow.array([rows], arrow.binary()), arrow.array([file], arrow.string())],
        names=["rows", "file"],
    )


def _schema_of(batch: Any, system: Any, parts: Sequence[Any], *, is_optional: bool) -> Any:
    schema = _first_schema(batch, system, parts)
    return optional(schema) if is_optional else schema


def _first_schema(batch: Any, system: Any, parts: Sequence[Any]) -> Any:
    """Of the first rows; a batch without any is asked for its columns."""
    if not parts:
        return batch.limit(0).toArrow().schema
    arrow = import_module("pyarrow")
    if parts[0].file is None:
        return arrow.ipc.open_stream(parts[0].rows).schema
    try:
        with system.open_input_file(parts[0].file) as file:
            return arrow.ipc.open_stream(file).schema
    except FileNotFoundError:
        raise ConfigError(
            "rows that Spark's tasks wrote beside the checkpoint are not there: "
            "checkpoint.location has to be a place that all of Spark's machines see",
            path=parts[0].file,
        ) from None


def _remove(system: Any, path: str) -> None:
    with suppress(FileNotFoundError):
        system.delete_dir(path)
