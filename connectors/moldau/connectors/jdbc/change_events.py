"""Debezium's change events for the sink: the row after the change, or a delete."""

from __future__ import annotations

from typing import Any

from moldau.connect.api import DataError, Schema, SinkRecord, Struct
from moldau.connect.transforms.debezium import Operation, change_of, is_envelope


class ChangeEvents:
    """Unwraps change events; every other record is not changed."""

    def __init__(self) -> None:
        self._last: object = self
        self._is_envelope = False

    def opened(self, record: SinkRecord) -> SinkRecord:
        """Return the record with the row after the change; without a value for a delete. Raise
        DataError for an event without a row."""
        schema: Schema | None = record.value_schema
        value: Any = record.value
        if schema is None:
            if type(value) is not dict or "op" not in value or not is_envelope(None, value):
                return record
        elif type(value) is not Struct:
            return record
        else:
            if schema is not self._last:
                self._last, self._is_envelope = schema, is_envelope(schema, value)
            if not self._is_envelope:
                return record
        change = change_of(schema, value)
        if change.operation in (Operation.TRUNCATE, Operation.MESSAGE):
            raise DataError(
                f"a change event with op={change.operation.value} is about no row -> drop it with "
                "the transform ExtractNewRecordState"
            )
        row = None if change.operation is Operation.DELETE else change.after
        row_schema = row.schema if isinstance(row, Struct) else None
        return record.replace(value_schema=row_schema, value=row)
