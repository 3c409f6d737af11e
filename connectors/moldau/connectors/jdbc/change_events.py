"""Change events of Debezium as the sink takes them: the row after, or a delete."""

from __future__ import annotations

from typing import Any

from moldau.connect.api import DataError, Schema, SinkRecord, Struct
from moldau.connect.transforms.debezium import Operation, change_of, is_envelope


class ChangeEvents:
    """Opens envelopes; every other record stays as it is."""

    def __init__(self) -> None:
        self._last: object = self
        self._is_envelope = False

    def opened(self, record: SinkRecord) -> SinkRecord:
        """The record with the row that an event leaves behind; without a value for a delete.
        Raises DataError for an event that is about no row."""
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
