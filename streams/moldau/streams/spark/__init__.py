"""The engine `spark`: the tasks of an app inside the executors of a Spark cluster.

Each sub-topology is a structured streaming query. Its batches are cut by Spark; in a batch, each
task runs its records with the engine's own `Task`, puts the changes of its stores beside the
checkpoint, and writes its outputs in a transaction that records the batch (`delivery`). The driver
then commits the batch with one file, which names for each task the attempt that counts. Repartition
topics stay topics. Changelogs are not made.

Importing this package imports neither pyspark nor pyarrow.
"""
