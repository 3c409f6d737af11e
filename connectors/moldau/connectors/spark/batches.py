"""Which batches a sink has already, and whether the checkpoint knows of them.

A sink that writes each batch once leaves out a number that it has. That is right for the last batch
before a crash, which Spark repeats under its number. It loses records when the numbers begin again
at 0: the checkpoint was deleted, or other offsets began a new generation. So a sink with batches
that the checkpoint does not know is refused, and a new generation that writes into the same
directory of files goes on with the numbers of that directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from moldau.connectors.spark.base_config import FILES
from moldau.connectors.spark.checkpoints import (
    CheckpointFolder,
    Generation,
    batches_in,
    batches_of,
)
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.errors import ConfigError

WriteBatch = Callable[[Any, int], None]
"""Gets a DataFrame and the number of the batch."""
_LOG: Final = "_spark_metadata"


@dataclass(frozen=True, slots=True)
class Place:
    """A query's name and checkpoint, `<connector>/gen-2/rows`. Invariant: `is_fresh` only if the
    checkpoint has no batch."""

    query: str
    checkpoint: str
    is_fresh: bool = False

    @property
    def spool(self) -> str:
        """Where the rows of a batch may lie until they are written: beside the checkpoints. All
        generations have the same one, so what a crash left is removed by the next."""
        return f"{self.checkpoint.rsplit('/', 2)[0]}/spool"


def is_repeated(last: int | None, number: int, *, is_fresh: bool) -> bool:
    """Whether the sink, which has batches up to `last`, leaves this one out. `is_fresh`: the
    checkpoint had no batch when the query began. ConfigError for a checkpoint that is not the one
    the sink was written with."""
    if last is None or last < number:
        return False
    if last > number or is_fresh:
        raise _unknown(last)
    return True


def check_columns(table: str | None, columns: Iterable[str], rows: Iterable[str]) -> None:
    """ConfigError if the rows have columns that the table lacks."""
    missing = sorted(set(rows) - set(columns))
    if missing:
        raise ConfigError(
            "the table lacks columns: add them, or set auto.evolve=true, or select others in "
            "transforms.sql",
            table=table,
            columns=", ".join(missing),
        )


def prepare_files(
    session: Any, config: SparkSinkConfig, folder: CheckpointFolder, generation: Generation
) -> None:
    """Called before a query of files starts. ConfigError if another connector writes into the
    directory, or if it holds batches that the checkpoint does not know."""
    if config.sink_format not in FILES:
        return
    assert config.sink_path is not None
    folder.claim(config.sink_path)
    if not folder.is_fresh(generation):
        return
    last = last_of_files(session, config.sink_path)
    if last is None:
        return
    if generation.number == 0:
        raise _unknown(last)
    if config.dedup_columns:
        raise ConfigError(
            "dedup.columns cannot begin anew in a directory of files that has batches: choose "
            "another sink.path",
            path=config.sink_path,
        )
    folder.number_from(generation, last)


def last_of_files(session: Any, path: str) -> int | None:
    """The last batch in Spark's log of a directory of files; None if it has none."""
    log = f"{path.rstrip('/')}/{_LOG}"
    numbers = batches_in(log)
    if numbers is None:
        numbers = batches_of(_listed(session, log))
    return max(numbers, default=None)


def _listed(session: Any, log: str) -> list[str]:
    """The names of files at a URI that only Spark knows."""
    missing = import_module("pyspark.errors").AnalysisException
    try:
        rows = session.read.text(log).select("_metadata.file_name").distinct().collect()
    except missing:
        return []
    return [row.file_name for row in rows]


def _unknown(last: int) -> ConfigError:
    return ConfigError(
        "the sink has batches that the checkpoint does not know, was the checkpoint deleted? Put "
        "it back; or, to write again what the topics have, reset the offsets of the stopped "
        "connector (moldau connect offsets NAME --reset)",
        last_batch=last,
    )
