"""The data source itself: what Spark finds under `format("moldau")`.

Spark starts a fresh Python for each streaming query, which imports this module and only asks where
the logs end. So what reads or writes records is imported when it is needed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource

from moldau.spark.options import parse_read, unused
from moldau.spark.reading import BatchReader, FilteringReader, StreamReader
from moldau.spark.value_types import row_schema

if TYPE_CHECKING:
    from moldau.spark.writing import BatchWriter, StreamWriter

LOG: Final = logging.getLogger("moldau.spark")


class TopicSource(DataSource):  # type: ignore[misc]
    """Topics as rows, and rows as records."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> str:
        """Spark asks when `load()` is called, so that wrong options are told there. It does not say
        whether it is for a stream: what only a batch or only a stream may have is looked at by the
        readers."""
        options = parse_read(self.options, is_stream=True, is_known=False)
        return row_schema(options)

    def reader(self, schema: Any) -> BatchReader:
        options = parse_read(self.options, is_stream=False)
        self._warn(is_stream=False)
        kind = FilteringReader if options.pushes_filters else BatchReader
        return kind(options, schema)

    def streamReader(self, schema: Any) -> StreamReader:
        options = parse_read(self.options, is_stream=True)
        self._warn(is_stream=True)
        return StreamReader(options, schema)

    def _warn(self, *, is_stream: bool) -> None:
        for line in unused(self.options, is_stream=is_stream):
            LOG.warning("%s", line)

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        from moldau.spark.writing import BatchWriter, parse_write

        return BatchWriter(parse_write(self.options, schema, overwrite=overwrite, is_stream=False))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        from moldau.spark.writing import StreamWriter, parse_write

        return StreamWriter(parse_write(self.options, schema, overwrite=overwrite, is_stream=True))
