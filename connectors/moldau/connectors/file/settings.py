"""The settings of the file connectors: Kafka's FileStream keys, and moldau's for several files."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from moldau.connect.api import ConfigModel, Problem, key
from moldau.connectors.file.formats import Compression, Format
from moldau.connectors.file.naming import Limits, check_template
from moldau.connectors.file.parquet import is_installed, missing


class OnBadLine(Enum):
    """What to do with a line that the format cannot read."""

    FAIL = "fail"
    SKIP = "skip"


def _missing(format_: Format) -> Iterable[Problem]:
    if format_ is Format.PARQUET and not is_installed():
        yield Problem("format", missing())


class FileSourceConfig(ConfigModel):
    """The settings of the file source."""

    topic: str = key("topic", doc="Where the records go.", importance="high")
    file: str | None = key("file", None, doc="The file to follow.", importance="high", width="long")
    pattern: str | None = key(
        "file.glob", None, doc="Files to read, with *, ? and **, instead of `file`.", width="long"
    )
    batch_size: int = key(
        "batch.size", 2000, doc="How many records one poll gives at most.", importance="low", ge=1
    )
    format: Format = key("format", Format.LINES, doc="lines, jsonl, csv or parquet.")
    compression: Compression = key(
        "compression", Compression.AUTO, doc="auto (by the name's end), none, gz or zst."
    )
    poll_interval_ms: int = key(
        "poll.interval.ms", 1000, doc="How long to wait at the end of the files.", ge=0
    )
    delimiter: str = key("csv.delimiter", ",", doc="Between the fields of CSV.", pattern="^.$")
    header: list[str] = key(
        "csv.header", [], doc="Names of the fields; empty takes the first line of each file."
    )
    on_bad_line: OnBadLine = key(
        "on.bad.line", OnBadLine.FAIL, doc="fail, or skip with a line in the log."
    )

    def check(self) -> Iterable[Problem]:
        if "topic" not in self.wrong and not self.topic.strip():
            yield Problem("topic", "name the topic that the records go to")
        yield from _missing(self.format)
        if not self.file and not self.pattern:
            yield Problem("file", "name a file, or files with file.glob; a task has no stdin")
        if self.file and self.pattern:
            yield Problem("file.glob", "use either file or file.glob")


class FileSinkConfig(ConfigModel):
    """The settings of the file sink."""

    file: str | None = key(
        "file", None, doc="The one file to append to.", importance="high", width="long"
    )
    directory: str | None = key(
        "directory", None,
        doc="The folder, or fsspec address such as s3://bucket/path, for rolled files.",
        importance="high", width="long",
    )  # fmt: skip
    format: Format = key("format", Format.LINES, doc="lines, jsonl, csv or parquet.")
    compression: Compression = key(
        "compression", Compression.NONE, doc="none, gz or zst, for rolled files."
    )
    path_format: str = key(
        "path.format", "${topic}",
        doc="Folder below the directory: ${topic}, ${partition}, ${field:x}, ${timestamp:%Y/%m}.",
    )  # fmt: skip
    flush_size: int = key("flush.size", 10_000, doc="Records in a roll; 0 is no limit.", ge=0)
    rotate_bytes: int = key(
        "rotate.size.bytes", 16 * 2**20, doc="Bytes of records in a roll; 0 is no limit.", ge=0
    )
    rotate_ms: int = key(
        "rotate.interval.ms", 60_000, doc="How long a roll may last; 0 is no limit.", ge=0
    )
    delimiter: str = key("csv.delimiter", ",", doc="Between the fields of CSV.", pattern="^.$")

    def check(self) -> Iterable[Problem]:
        yield from _missing(self.format)
        if bool(self.file) == bool(self.directory):
            yield Problem("file", "name either file (append) or directory (rolled files)")
        if self.file and self.format in (Format.CSV, Format.PARQUET):
            yield Problem("format", f"{self.format.value} needs directory, where files end")
        if self.file and self.compression not in (Compression.NONE, Compression.AUTO):
            yield Problem("compression", "a file that is appended to is not compressed")
        wrong = check_template(self.path_format)
        if wrong is not None and "path.format" not in self.wrong:
            yield Problem("path.format", f"path.format {wrong}")
        if self.directory and not (self.flush_size or self.rotate_bytes or self.rotate_ms):
            yield Problem("flush.size", "set a limit, or no file would ever be written")

    def limits(self) -> Limits:
        return Limits(self.flush_size, self.rotate_bytes, self.rotate_ms)
