"""Expressions over the fields of records: plain data, checked against the records' type."""
