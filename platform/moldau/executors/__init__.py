"""What a Python worker of Spark does with a cluster: the clients that it keeps from task to task,
the ranges of offsets that a task reads, and the transaction that it writes in.

The data source (`moldau.spark`) and the Streams engine on Spark are its users. Nothing here imports
PySpark. Invariant: a worker runs one task at a time, on one thread.
"""
