"""The batch numbers in a log directory of Spark: `offsets`, `commits`, or `_spark_metadata`.

Each file of such a log is named after a batch: `7`, or `9.compact`, which also holds the batches
before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.connectors.spark.checkpoint.address import local_path


def read_batch_numbers(log: str) -> list[int] | None:
    """Return the batch numbers in a log directory: [] if the directory does not exist.

    None for a URI, which only Spark can read.
    """
    path = local_path(log)
    if path is None:
        return None
    return parse_batch_numbers([each.name for each in path.iterdir()]) if path.is_dir() else []


def parse_batch_numbers(file_names: Iterable[str]) -> list[int]:
    """Return the batch numbers that the file names of a log stand for."""
    plain = [name.removesuffix(".compact") for name in file_names]
    return [int(name) for name in plain if name.isdigit()]
