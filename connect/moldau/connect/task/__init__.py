"""A running task: the loops of sources and sinks, between the connector's code and the client.

It runs in a process that may run others too (`python -m moldau.connect.task`), or in a thread of
the worker;
`messages` defines the messages between worker and task.
"""
