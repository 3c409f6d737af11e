"""The formats of files: lines of text, JSON lines or CSV, in both directions; compression.

Parquet has its own module (`parquet`), because it is not made of lines.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, BinaryIO

import orjson

from moldau.connect.api import ConnectError, DataError, Schema, Struct
from moldau.connect.data import STRING, Type
from moldau.connect.java.text import java_float

Decode = Callable[[bytes], tuple[Schema | None, Any]]


class Format(Enum):
    """The format of a file."""

    LINES = "lines"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Compression(Enum):
    """The compression of a file; `auto` depends on the end of its name."""

    AUTO = "auto"
    NONE = "none"
    GZ = "gz"
    ZST = "zst"


EXTENSIONS: Mapping[Format, str] = {
    Format.LINES: "txt",
    Format.JSONL: "jsonl",
    Format.CSV: "csv",
    Format.PARQUET: "parquet",
}


def compression_of(path: str, setting: Compression) -> Compression:
    """Return the compression of a file: the setting, or by the end of its name."""
    if setting is not Compression.AUTO:
        return setting
    endings = {"gz": Compression.GZ, "zst": Compression.ZST, "zstd": Compression.ZST}
    return endings.get(path.rpartition(".")[2].lower(), Compression.NONE)


class _Gzip(gzip.GzipFile):
    """A gzip reader that also closes the underlying file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._file = file

    def close(self) -> None:
        super().close()
        self._file.close()


def decompressed(file: BinaryIO, compression: Compression) -> BinaryIO:
    """Return a reader of the decompressed file."""
    if compression is Compression.GZ:
        return _Gzip(file)  # type: ignore[return-value]
    if compression is Compression.ZST:
        return _zstandard().ZstdDecompressor().stream_reader(file, read_across_frames=True)  # type: ignore[no-any-return]
    return file


def compressed(data: bytes, compression: Compression) -> bytes:
    """Return the compressed bytes; always the same for the same data."""
    if compression is Compression.GZ:
        return gzip.compress(data, mtime=0)
    if compression is Compression.ZST:
        packed: bytes = _zstandard().ZstdCompressor().compress(data)
        return packed
    return data


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ConnectError("zst needs the package zstandard -> pip install zstandard") from error
    return zstandard


# --- reading --------------------------------------------------------------------------------------


def decode_text(line: bytes) -> tuple[Schema | None, Any]:
    return STRING, line.decode()


def decode_texts(lines: Sequence[bytes]) -> list[str]:
    """Return the texts of lines. No line may contain a newline."""
    return b"\n".join(lines).decode().split("\n")


def decode_json(line: bytes) -> tuple[Schema | None, Any]:
    return None, orjson.loads(line)


def csv_decoder(header: Sequence[str], delimiter: str) -> Decode:
    """Return a decoder to objects of texts. It raises ValueError if a record's length is wrong."""

    def decode(line: bytes) -> tuple[Schema | None, Any]:
        fields = csv_fields(line, delimiter)
        if len(fields) != len(header):
            raise ValueError(f"{len(fields)} fields, but the header has {len(header)}")
        return None, dict(zip(header, fields, strict=True))

    return decode


def csv_fields(line: bytes, delimiter: str) -> list[str]:
    return next(csv.reader(io.StringIO(line.decode(), newline=""), delimiter=delimiter), [])


# --- writing --------------------------------------------------------------------------------------


def java_text(value: Any, schema: Schema | None = None) -> str:
    """Return a value as Java's toString shows it, as Kafka's file sink writes it. Bytes are text,
    where Java writes an address in memory, and times are in ISO 8601."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_float(value, schema is not None and schema.type is Type.FLOAT32)
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.row, strict=True)
        shown = (f"{f.name}={java_text(v, f.schema)}" for f, v in pairs if v is not None)
        return f"Struct{{{','.join(shown)}}}"
    if isinstance(value, dict):
        keys, values = (schema.key_schema, schema.value_schema) if schema else (None, None)
        shown = (f"{java_text(k, keys)}={java_text(v, values)}" for k, v in value.items())
        return f"{{{', '.join(shown)}}}"
    if isinstance(value, list):
        items = schema.value_schema if schema else None
        return f"[{', '.join(java_text(each, items) for each in value)}]"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode(errors="replace")
    return str(value)


def to_plain(value: Any) -> Any:
    """Return a struct as a dict, and any other value unchanged."""
    return value.to_dict() if isinstance(value, Struct) else value


def json_line(value: Any) -> bytes:
    """Return one line of JSON. Raise DataError if JSON cannot represent the value."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(value, default=_jsonable, option=options)
    except TypeError as error:
        raise DataError(f"the value cannot be written as JSON: {error}") from error


def _jsonable(value: Any) -> Any:
    if isinstance(value, Struct):
        return dict(value.items())
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    raise TypeError(type(value).__name__)


def csv_text(rows: Sequence[Mapping[str, Any]], delimiter: str) -> str:
    """Return a header with all fields that occur, then one line for each row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | Decimal | date | time | datetime):
        return java_text(value) if isinstance(value, bool) else value
    return json_line(value).decode().rstrip("\n")
