"""The engine `spark`: the tasks of an app inside the executors of a Spark cluster.

Each sub-topology runs in batches, which the driver cuts (`query`, `ranges`). A batch is a Spark
job; each of its tasks gets ranges of offsets, reads these records itself (`reading`), runs them
with the engine's own `Task` (`stage`), puts the changes of its stores beside the checkpoint, and
writes its outputs in a transaction that records the batch (`delivery`). The driver then commits the
batch with one file, which names for each task the attempt that counts, and where its inputs go on.
Repartition topics stay topics. Changelogs are not made.

Importing this package imports neither pyspark nor pyarrow.
"""
