"""Decide whether a sink has a batch already, and refuse a sink that belongs to other checkpoints.

A sink that writes each batch once leaves out a batch whose number it has. That is right for the
last batch before a crash, which Spark repeats under the same number. It would lose records if the
numbers began again at 0, because the checkpoint was deleted or other offsets began a new
generation. So a sink with batches that the checkpoint does not know is refused. A new generation
that writes into the same directory of files continues with the numbers of that directory. A
directory without the batches of the checkpoint is refused too: Spark could not go on there.

Whether a query keeps state from batch to batch, as an aggregate does, only the text of Spark's plan
says on a Spark Connect server too. In it each operator has a line, a child is three columns further
in than its parent, and `~` marks rows that come from a stream:

    ~Join Inner, (id#1 = id#2)
    :- ~SubqueryAlias source
    +- Relation [id#2] parquet
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.base_config import FILE_FORMATS
from moldau.connectors.spark.checkpoint.address import parse_batch_numbers, read_batch_numbers
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.generations import Generation
from moldau.connectors.spark.checkpoint.sink_directory import SPARK_LOG, SinkDirectory
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.deferred import dataclass
from moldau.errors import ConfigError

WriteBatch = Callable[[Any, int], None]
"""A function that writes a batch. Its arguments are a DataFrame and the number of the batch."""

_BEGIN, _END = "== Analyzed Logical Plan ==", "== Optimized Logical Plan =="
_OPERATOR: Final = re.compile(r"^(?P<before>[\s:+-]*)(?P<is_stream>~?)(?P<name>\w+)")
_STATEFUL: Final = re.compile(r"Aggregate|Distinct|Deduplicate\w*|GlobalLimit|\w+WithState\w*")
_INDENT: Final = 3

Operator = tuple[int, bool, str]
"""The column of an operator, whether its rows come from a stream, and its name."""


@dataclass(frozen=True, slots=True)
class QueryCheckpoint:
    """The name of a query and the address of its checkpoint, `<connector>/gen-2/rows`.

    Invariant: `is_fresh` only if the checkpoint has no batch.
    """

    query_name: str
    address: str
    is_fresh: bool = False

    @property
    def spool(self) -> str:
        """The folder for the rows of a batch until they are written. It is beside the checkpoints.

        All generations share it, so the next one removes what a crash left there.
        """
        return f"{self.address.rsplit('/', 2)[0]}/spool"


def is_repeated(last: int | None, number: int, *, is_fresh: bool) -> bool:
    """Whether the sink leaves out this batch, because it has all batches up to `last`.

    `is_fresh`: the checkpoint had no batch when the query began. ConfigError if the sink was
    written with another checkpoint.
    """
    if last is None or last < number:
        return False
    if last > number or is_fresh:
        raise _unknown_batches(last)
    return True


def check_columns(
    table: str | None, table_columns: Iterable[str], row_columns: Iterable[str]
) -> None:
    """Raise ConfigError if the rows have columns that the table lacks."""
    missing = sorted(set(row_columns) - set(table_columns))
    if missing:
        raise ConfigError(
            "the table lacks columns: add them, or set auto.evolve=true, or select others in "
            "transforms.sql",
            table=table,
            columns=", ".join(missing),
        )


def prepare_file_sink(
    rows: Any, config: SparkSinkConfig, folder: CheckpointFolder, generation: Generation
) -> None:
    """Claim the directory of a sink of files, and set the number of the first batch.

    `rows` is the streaming DataFrame of the sink. Call this before the query starts. ConfigError if
    another connector writes into the directory, if the directory has batches that the checkpoint
    does not know or lacks some that it has, or if the query cannot begin there.
    """
    if config.sink_format not in FILE_FORMATS:
        return
    path, generations = config.sink_path, folder.generations
    assert path is not None
    last = last_file_batch(rows.sparkSession, path)
    checkpoint = f"{generations.path(generation)}/rows"
    _check_has_batches(path, last, last_batch(rows.sparkSession, f"{checkpoint}/commits"))
    SinkDirectory(path, folder.address.connector).claim(generations)
    if last is None or not generations.is_fresh(generation):
        return
    if generation.number == 0:
        raise _unknown_batches(last)
    if is_stateful(rows):
        raise ConfigError(
            "a query with state (dedup.columns, an aggregate, a window, a join of streams, a "
            "limit) cannot begin anew in a directory of files that has batches: choose another "
            "sink.path",
            path=path,
        )
    generations.number_after(generation, last)


def _check_has_batches(path: str, last: int | None, last_committed: int | None) -> None:
    """Raise ConfigError if the directory lacks batches that the checkpoint has committed.

    `last` is the directory's last batch. Spark would write the next batches there, and fail when it
    next compacts its log of the directory, which needs those before.
    """
    if last_committed is not None and (last is None or last < last_committed):
        raise ConfigError(
            "the checkpoint has batches that this sink.path lacks, so sink.path was changed or its "
            "files were removed: set sink.path back; or, to write again what the topics have, "
            "reset the offsets of the stopped connector (moldau connect offsets NAME --reset)",
            path=path,
            last_batch="none" if last is None else last,
            last_batch_of_checkpoint=last_committed,
        )


def last_file_batch(session: Any, path: str) -> int | None:
    """Return the last batch in Spark's log of a directory of files; None if it has none."""
    return last_batch(session, f"{path.rstrip('/')}/{SPARK_LOG}")


def last_batch(session: Any, log: str) -> int | None:
    """Return the last batch in a log of Spark; None if it has none."""
    numbers = read_batch_numbers(log)
    if numbers is None:
        numbers = parse_batch_numbers(_file_names(session, log))
    return max(numbers, default=None)


def _file_names(session: Any, log: str) -> list[str]:
    """Return the names of the files in a folder at a URI, which only Spark can read."""
    missing = import_module("pyspark.errors").AnalysisException
    try:
        rows = session.read.text(log).select("_metadata.file_name").distinct().collect()
    except missing:
        return []
    return [row.file_name for row in rows]


def _unknown_batches(last: int) -> ConfigError:
    return ConfigError(
        "the sink has batches that the checkpoint does not know. If the checkpoint was deleted or "
        "moved, put it back; or, to write again what the topics have, reset the offsets of the "
        "stopped connector (moldau connect offsets NAME --reset)",
        last_batch=last,
    )


def is_stateful(rows: Any) -> bool:
    """Whether the query of a streaming DataFrame keeps state."""
    text = io.StringIO()
    with redirect_stdout(text):
        rows.explain(extended=True)
    return is_stateful_plan(text.getvalue())


def is_stateful_plan(text: str) -> bool:
    """Whether a plan in the text of `explain(extended=True)` has an operator with state: one over
    a stream that needs other rows too, or a join of two streams."""
    plan = text.partition(_BEGIN)[2].partition(_END)[0]
    found = [_OPERATOR.match(line) for line in plan.splitlines()]
    operators = [
        (len(each["before"]), bool(each["is_stream"]), each["name"])
        for each in found
        if each is not None
    ]
    return any(
        is_stream
        and (
            _STATEFUL.fullmatch(name) is not None
            or (name == "Join" and _stream_count(column, operators[position + 1 :]) > 1)
        )
        for position, (column, is_stream, name) in enumerate(operators)
    )


def _stream_count(column: int, below: Sequence[Operator]) -> int:
    """Return how many children of an operator are streams. `below` are the operators after it."""
    count = 0
    for each, is_stream, _ in below:
        if each <= column:
            break
        count += is_stream and each == column + _INDENT
    return count
