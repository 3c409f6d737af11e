"""Start Spark's Python workers faster: import modules once, in the process that forks the workers.

Spark runs this module if the setting `spark.python.daemon.module` names it. `new_session` sets it;
a session without it works as well. The modules are those that each worker of the data source
needs. Otherwise each worker, and the process that plans a read, spends half a second on them.

Invariant: no module here starts threads when it is imported, because a fork loses threads. numpy
and pyarrow start threads, so the workers themselves import `moldau.spark.source`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

PRELOADED: Final = (
    "pyspark.worker", "moldau.client.admin.sync.admin", "moldau.client.consumer.sync.consumer",
    "moldau.client.producer.sync.producer", "moldau.spark.lookups", "moldau.spark.ranges",
)  # fmt: skip


def main() -> None:
    """Import the modules, then fork workers for Spark until Spark closes standard input."""
    for name in PRELOADED:
        import_module(name)
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
