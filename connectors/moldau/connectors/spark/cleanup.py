"""What a deleted connector leaves at `checkpoint.location`, removed with `checkpoint.cleanup=true`.

Invariant: it goes only while this process holds the lock of each query, after what a killed runner
left on a Spark Connect server has ended. So no query ever loses the checkpoint that it works on.
A folder that has anything else in it stays: rows may lie there.
"""

from __future__ import annotations

from moldau.connect.errors import ConnectError, RetriableError
from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.checkpoints import CheckpointFolder
from moldau.connectors.spark.deployments import end_left
from moldau.errors import ConfigError


def clean(config: SparkConfig, connector: str) -> None:
    """RetriableError while a query works on one of the checkpoints; ConnectError if the folder has
    more in it than checkpoints."""
    location = config.checkpoint_location
    whole = CheckpointFolder(location, connector)
    if not whole.is_there:
        return
    folders = [CheckpointFolder(location, connector, each) for each in whole.topics()]
    others = [name for folder in (whole, *folders) for name in folder.others()]
    if others:
        raise ConnectError(
            "checkpoint.cleanup: the checkpoints stay, for their folder has something else in it",
            location=location,
            found=", ".join(others),
        )
    try:
        for folder in (whole, *folders):
            folder.hold()
        for folder in (whole, *folders):
            end_left(config, folder)
        whole.remove()
    except (ConfigError, OSError) as error:
        raise RetriableError(
            f"checkpoint.cleanup: the checkpoints stay: {error}", location=location
        ) from error
    finally:
        for folder in (whole, *folders):
            folder.release()
