"""Spark as a connector: a streaming query writes topics to files, tables, databases and topics, or
reads those into a topic.

A task of the connector starts one runner process (`runner`), which has a Spark session and the
query. Spark divides the work. The task sends messages to the runner, and gives its progress,
offsets and errors to the worker. The runner also works without a worker: it takes a config on
standard input.
"""
