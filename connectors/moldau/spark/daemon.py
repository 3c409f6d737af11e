"""The process that Spark forks its Python workers from: `spark.python.daemon.module`.

It imports what each worker of the data source needs before the first fork, so that a worker, and
the process that plans a read, need not import it for half a second each. `new_session` sets it; a
session without it works as well.

Invariant: nothing is imported here that starts threads, for a fork loses them. numpy and pyarrow
do, so `moldau.spark.source` is imported by the workers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

PRELOADED: Final = (
    "pyspark.worker",
    "moldau.client.sync.admin",
    "moldau.client.sync.consumer",
    "moldau.client.sync.producer",
    "moldau.spark.lookups",
    "moldau.spark.ranges",
)


def main() -> None:
    """Serves until Spark closes standard input."""
    for name in PRELOADED:
        import_module(name)
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
