"""Bring rows that this process reads from a database to Spark's tasks.

A few rows are given to Spark at once. More are written into files of the spool, a folder beside the
checkpoints, and Spark's tasks read these. So neither this process nor Spark's driver holds a table.

Invariant: the files stay until the rows are written, and `remove` removes them, also those that a
crash left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from itertools import chain
from typing import Any, Final, Protocol

from moldau.connectors.spark.spool import (
    emptied_spool,
    file_not_seen,
    file_system,
    remove_folder,
)

_MEMORY_BYTES: Final = 16 * 1024 * 1024
_FILE_BYTES: Final = 64 * 1024 * 1024


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
