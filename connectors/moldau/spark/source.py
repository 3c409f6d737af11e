"""Define the data source that Spark finds under `format("moldau")`.

Spark starts a new Python process for each streaming query. That process imports this module and
only looks up where the logs end. So modules that read or write records are imported later.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource

from moldau.spark.options import parse_read, unused_options
from moldau.spark.reading import BatchReader, FilteringReader, StreamReader
from moldau.spark.tracebacks import hides_frames
from moldau.spark.value_types import check_columns, row_schema

if TYPE_CHECKING:
    from moldau.spark.writing import BatchWriter, StreamWriter

LOG: Final = logging.getLogger("moldau.spark")


@hides_frames("partitions", "read")
class SourceBatchReader(BatchReader):
    """The BatchReader that Spark calls."""


@hides_frames("pushFilters", "partitions", "read")
class SourceFilteringReader(FilteringReader):
    """The FilteringReader that Spark calls."""


@hides_frames(
    "initialOffset", "prepareForTriggerAvailableNow", "latestOffset", "partitions", "read", "commit"
)
class SourceStreamReader(StreamReader):
    """The StreamReader that Spark calls."""


@hides_frames("schema", "reader", "streamReader", "writer", "streamWriter")
class TopicSource(DataSource):  # type: ignore[misc]
    """The data source `moldau`: it reads topics as rows and writes rows as records."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> str:
        """Return the columns, as DDL. Spark calls this in `load()`, so wrong options fail there.

        Spark does not say here whether the read is a stream. So the readers check the options that
        only a batch or only a stream may have."""
        options = parse_read(self.options, is_stream=True, is_known=False)
        return row_schema(options)

    def reader(self, schema: Any) -> BatchReader:
        options = parse_read(self.options, is_stream=False)
        check_columns(options, schema.names)
        self._warn(is_stream=False)
        kind = SourceFilteringReader if options.pushes_filters else SourceBatchReader
        return kind(options, schema)

    def streamReader(self, schema: Any) -> StreamReader:
        options = parse_read(self.options, is_stream=True)
        check_columns(options, schema.names)
        self._warn(is_stream=True)
        return SourceStreamReader(options, schema)

    def _warn(self, *, is_stream: bool) -> None:
        for line in unused_options(self.options, is_stream=is_stream):
            LOG.warning("%s", line)

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        from moldau.spark.writing import BatchWriter, parse_write

        return BatchWriter(parse_write(self.options, schema, overwrite=overwrite, is_stream=False))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        from moldau.spark.writing import StreamWriter, parse_write

        return StreamWriter(parse_write(self.options, schema, overwrite=overwrite, is_stream=True))
