"""A task at work: the loops of sources and sinks, between the connector's code and the client.

It runs in a process of its own (`python -m moldau.connect.task`) or in a thread of the worker;
`messages` is what the two tell each other.
"""
