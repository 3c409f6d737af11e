"""Which cluster the alias of a source stands for, noted beside what was copied from it.

What was copied is stored by alias and topic. If the alias meant another cluster in the next run,
its topics would continue at offsets of the first one's, and records would be left out in silence.
The note is an offset of a connector of its own in the topic `mm2-offsets.SOURCE.internal`: Java's
MirrorMaker reads only those of its connectors.
"""

from __future__ import annotations

from typing import Final

from moldau.connect.storage.stores import OffsetStore
from moldau.errors import ConfigError

_NOTED_BY: Final = "moldau mirror"
_CLUSTER_ID: Final = "cluster_id"


async def check_source_cluster(
    offsets: OffsetStore, alias: str, cluster_id: str | None, topic: str
) -> None:
    """Note the id of the source in `topic` at the first run. Raise ConfigError if another cluster
    had this alias before.

    The image is read as it is: to wait for a transaction of a killed run, which the tasks end that
    are started after this, would take until its timeout. The note is older than any of those.
    """
    if cluster_id is None:
        return
    partition = {"cluster": alias}
    noted = offsets.image.of(_NOTED_BY, partition)
    if noted is None:
        await offsets.write(_NOTED_BY, [(partition, {_CLUSTER_ID: cluster_id})])
    elif noted.get(_CLUSTER_ID) != cluster_id:
        raise ConfigError(
            f"the target has copies of another cluster called {alias}, and its offsets mean "
            "nothing in this one: give --from-alias with another name (in a mm2.properties, name "
            f"the cluster otherwise), or delete the topic {topic} to copy everything from the "
            "beginning",
            copied_cluster=noted.get(_CLUSTER_ID),
            this_cluster=cluster_id,
        )
