"""Spark as a connector: topics to files, tables, databases and topics through a streaming query.

A connector is one Connect task, and the task is one runner process (`runner`) with one Spark
session and its query. Spark divides the work; the task starts the runner, listens to its events and
tells the worker. The runner can be used without a worker: it takes a config on standard input.
"""
