"""Read the lake: the Parquet files that Spark has committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq


def committed(lake: Path) -> list[Path]:
    """Return the files that Spark's log names. Other files belong to a batch that has not ended."""
    log = lake / "_spark_metadata"
    if not log.is_dir():
        return []
    names = [each for each in log.iterdir() if not each.name.startswith(".")]
    found: dict[str, None] = {}
    for each in sorted(names):
        for line in each.read_text(encoding="utf-8").splitlines()[1:]:
            found[json.loads(line)["path"]] = None
    return [Path(unquote(urlsplit(path).path)) for path in found]


def count(lake: Path) -> int:
    """Return how many sales are in the lake, from the footers of the files."""
    return sum(pq.read_metadata(each).num_rows for each in committed(lake))


def read(lake: Path) -> Any:
    """Return all sales as an Arrow table."""
    tables = [pq.ParquetFile(each).read() for each in committed(lake)]
    return pa.concat_tables(tables) if tables else pa.table({})
