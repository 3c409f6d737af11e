"""JDBC source and sink: Confluent's keys and offsets, on SQLAlchemy and Python's drivers.

Cores decide (address, dialects, query, progress, layout, shapes, reduction, failures), and three
shells act: `database` opens connections, `source_task` and `sink_task` are Connect's tasks.
"""
