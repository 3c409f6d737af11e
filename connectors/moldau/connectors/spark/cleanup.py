"""`checkpoint.cleanup=true`: remove the checkpoints of a connector that was deleted.

Invariant: they are removed only while this process holds the lock of each query, and after a query
that a killed runner left on a Spark Connect server has ended. So no query ever loses the checkpoint
that it works on. A folder with anything else in it stays: it may hold rows.
"""

from __future__ import annotations

from moldau.connect.errors import ConnectError, RetriableError
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.deployments import end_open_session
from moldau.errors import ConfigError


def remove_checkpoints(config: SparkConfig, connector: str) -> None:
    """Remove all checkpoints of the connector. Do nothing if it has none.

    RetriableError while a query works on one of them. ConnectError if the folder has more in it
    than checkpoints.
    """
    location = config.checkpoint_location
    whole = CheckpointFolder(location, connector)
    if not whole.exists:
        return
    folders = [CheckpointFolder(location, connector, each) for each in whole.topics()]
    foreign = [name for folder in (whole, *folders) for name in folder.foreign_names()]
    if foreign:
        raise ConnectError(
            "checkpoint.cleanup: the checkpoints stay, for their folder has something else in it: "
            "move it away, or remove the folder by hand",
            location=location,
            found=", ".join(foreign),
        )
    try:
        for folder in (whole, *folders):
            folder.lock.acquire()
        for folder in (whole, *folders):
            end_open_session(config, folder)
        whole.remove()
    except (ConfigError, OSError) as error:
        raise RetriableError(
            f"checkpoint.cleanup: the checkpoints stay: {error}", location=location
        ) from error
    finally:
        for folder in (whole, *folders):
            folder.lock.release()
