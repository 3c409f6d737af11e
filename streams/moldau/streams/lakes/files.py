"""Read versions of tables in files: Delta with deltalake, Iceberg with pyiceberg, Parquet with
pyarrow. Each is imported when an app uses it."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Protocol

from moldau.plugins.extras import install_command
from moldau.streams.expressions.tree import fields_in
from moldau.streams.plan.plan import LakeTable
from moldau.streams.problems import LakeUnreadable, StreamsError

_TRIES: Final = 5
_METADATA: Final = re.compile(r"(?:v|0*)(\d+).*\.metadata\.json$")


class LakeFiles(Protocol):
    """The files of a table."""

    def version(self) -> str:
        """Return the newest version."""

    def columns(self, version: str) -> list[str]: ...

    def rows(self, version: str, columns: list[str]) -> tuple[str, list[dict[str, Any]]]:
        """Return the rows, and the version that they are of: Parquet has only the newest one."""


def files_of(table: LakeTable) -> LakeFiles:
    """Return the reader for the table's format. Raise LakeUnreadable if a package is missing."""
    kinds: dict[str, Callable[[LakeTable], LakeFiles]] = {
        "delta": DeltaFiles,
        "iceberg": IcebergFiles,
        "parquet": ParquetFiles,
    }
    return kinds[table.format](table)


def _imported(table: LakeTable, name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise LakeUnreadable(
            table.name, f"format={table.format!r} needs {package}: {install_command('lakes')}"
        ) from None


def _failures() -> tuple[type[Exception], ...]:
    """Return what the libraries that are in use raise."""
    found: list[type[Exception]] = [OSError, ValueError, LookupError, RuntimeError, TypeError]
    for name in ("deltalake.exceptions", "pyarrow.lib", "pyiceberg.exceptions"):
        module = vars(sys.modules[name]) if name in sys.modules else {}
        found += [
            each
            for each in module.values()
            if isinstance(each, type)
            and issubclass(each, Exception)
            and "Warn" not in each.__name__
        ]
    return tuple(found)


@contextmanager
def _readable_errors(
    table: LakeTable, missing: type[BaseException] = FileNotFoundError
) -> Iterator[None]:
    """Raise what a library raises as one line. `missing` is what it raises if nothing is there."""
    try:
        yield
    except LakeUnreadable:
        raise
    except missing as error:
        raise LakeUnreadable(
            table.name, f"there is no {table.format.capitalize()} table at {table.path}"
        ) from error
    except _failures() as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise LakeUnreadable(table.name, f"{table.path} cannot be read: {lines[0]}") from error


def _read(table: LakeTable, columns: list[str]) -> list[str]:
    """Return the columns to read for these: those of the condition, too."""
    return columns if table.where is None else sorted({*columns, *fields_in(table.where)})


def _rows(table: LakeTable, found: Any, columns: list[str]) -> list[dict[str, Any]]:
    """Return the rows that are wanted. The others never become objects."""
    if table.where is not None:
        from moldau.streams.expressions.arrow import kept

        try:
            found = kept(table.where, found).select(columns)
        except StreamsError as error:
            raise LakeUnreadable(table.name, f"{table.path}: where: {error}") from None
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


class DeltaFiles:
    """A Delta table. Its version is a number and the id of the table, which may be made anew."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self._module = _imported(table, "deltalake")
        _imported(table, "pyarrow")
        self._missing = import_module("deltalake.exceptions").TableNotFoundError

    def version(self) -> str:
        with _readable_errors(self._table, self._missing):
            found = self._module.DeltaTable(self._table.path)
            return f"{found.version()}@{found.metadata().id}"

    def columns(self, version: str) -> list[str]:
        with _readable_errors(self._table, self._missing):
            return [each.name for each in self._at(version).schema().fields]

    def rows(self, version: str, columns: list[str]) -> tuple[str, list[dict[str, Any]]]:
        with _readable_errors(self._table, self._missing):
            table = self._at(version).to_pyarrow_table(columns=_read(self._table, columns))
            return version, _rows(self._table, table, columns)

    def _at(self, version: str) -> Any:
        number = int(version.partition("@")[0])
        return self._module.DeltaTable(self._table.path, version=number)


class IcebergFiles:
    """An Iceberg table by its folder, without a catalog. Its version is the name of the metadata
    file, from `version-hint.text` if there is one, else the one with the highest number."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self._module = _imported(table, "pyiceberg.table")
        self._filesystems = _imported(table, "pyarrow.fs")

    def version(self) -> str:
        with _readable_errors(self._table):
            filesystem, folder = _located(self._filesystems, f"{self._table.path}/metadata")
            hint = f"{folder}/version-hint.text"
            selector = self._filesystems.FileSelector(folder)
            names = [each.base_name for each in filesystem.get_file_info(selector)]
            if "version-hint.text" in names:
                with filesystem.open_input_stream(hint) as stream:
                    number = stream.read().decode().strip()
                hinted = [number, f"v{number}.metadata.json", f"{number}.metadata.json"]
                names = [each for each in names if each in hinted] or names
            numbered = [(int(found[1]), each) for each in names if (found := _METADATA.match(each))]
            if not numbered:
                raise FileNotFoundError
            return str(max(numbered)[1])

    def columns(self, version: str) -> list[str]:
        with _readable_errors(self._table):
            return [each.name for each in self._at(version).schema().fields]

    def rows(self, version: str, columns: list[str]) -> tuple[str, list[dict[str, Any]]]:
        with _readable_errors(self._table):
            scan = self._at(version).scan(selected_fields=tuple(_read(self._table, columns)))
            return version, _rows(self._table, scan.to_arrow(), columns)

    def _at(self, version: str) -> Any:
        return self._module.StaticTable.from_metadata(f"{self._table.path}/metadata/{version}")


class ParquetFiles:
    """A Parquet file, or a folder of them. Its version is a sum over names, sizes and times, so
    only the newest one can be read; files that change meanwhile are read again."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self._filesystems = _imported(table, "pyarrow.fs")
        self._datasets = _imported(table, "pyarrow.dataset")

    def version(self) -> str:
        with _readable_errors(self._table):
            filesystem, folder = _located(self._filesystems, self._table.path)
            kind = filesystem.get_file_info(folder)
            if kind.is_file:
                found = [kind]
            else:
                selector = self._filesystems.FileSelector(folder, recursive=True)
                found = [each for each in filesystem.get_file_info(selector) if each.is_file]
            # What begins with _ or . are marks and files that are being written.
            found = [each for each in found if each.base_name[:1] not in ("_", ".")]
            if not found:
                raise FileNotFoundError
            text = repr(sorted((each.path, each.size, each.mtime_ns) for each in found))
            return f"{len(found)} files, {zlib.crc32(text.encode()):08x}"

    def columns(self, version: str) -> list[str]:
        with _readable_errors(self._table):
            return list(self._dataset().schema.names)

    def rows(self, version: str, columns: list[str]) -> tuple[str, list[dict[str, Any]]]:
        for at in range(_TRIES):
            before = self.version()
            try:
                with _readable_errors(self._table):
                    table = self._dataset().to_table(columns=_read(self._table, columns))
                    found = _rows(self._table, table, columns)
            except LakeUnreadable:
                if at == _TRIES - 1 or before == self.version():
                    raise
                continue
            if before == self.version():
                return before, found
        raise LakeUnreadable(self._table.name, f"{self._table.path} changes while it is read")

    def _dataset(self) -> Any:
        filesystem, folder = _located(self._filesystems, self._table.path)
        return self._datasets.dataset(
            folder, filesystem=filesystem, format="parquet", partitioning="hive"
        )


def _located(module: Any, path: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path in it."""
    if "://" in path:
        filesystem, inside = module.FileSystem.from_uri(path)
        return filesystem, inside
    return module.LocalFileSystem(), path
