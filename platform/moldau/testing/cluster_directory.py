"""The directory of a cluster on this machine, and the nodes that it belongs to.

Invariant: the voters of a directory stay the same from start to start. A node is known by its file
of settings, even if its disk was lost, or by a formatted directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.config.properties import format_properties
from moldau.errors import MoldauError
from moldau.ids import RandomBytes, format_uuid, new_uuid
from moldau.runtime.files import Files
from moldau.runtime.real_files import RealFiles

CONTROLLERS_FROM: Final = 101
"""The first id of a node that is only a controller."""
FOLDER: Final = "node-"
SETTINGS: Final = ".properties"
_CLUSTER_ID: Final = "cluster.id"
_FORMATTED: Final = "meta.properties"


_RESTART: Final = ".restart"


class ClusterFailed(MoldauError):
    """A node did not start, or ended by itself, or does not exist; the text says why."""


class RestartMarks:
    """Files that ask the `moldau cluster up` of a directory to restart a node. It removes a mark
    when the node is up again."""

    def __init__(self, directory: str) -> None:
        """Raise ClusterFailed if the directory is not that of a cluster."""
        self.directory = directory
        self._files = RealFiles()
        if not self._files.exists(f"{directory}/{_CLUSTER_ID}"):
            raise ClusterFailed(
                "no cluster was started there: give the --data of `moldau cluster up`",
                directory=directory,
            )

    def make(self, node_id: int) -> None:
        """Ask for the restart. Raise ClusterFailed if the directory has no such node."""
        if node_id not in _known_nodes(self._files, self.directory):
            raise ClusterFailed(f"node {node_id} is not of this cluster", directory=self.directory)
        self._files.write_text_atomic(self._path(node_id), "")

    def has(self, node_id: int) -> bool:
        """Whether the node is still to be restarted."""
        return self._files.exists(self._path(node_id))

    def remove(self, node_id: int) -> None:
        """End the request, if there is one."""
        if self.has(node_id):
            self._files.remove(self._path(node_id))

    def _path(self, node_id: int) -> str:
        return f"{self.directory}/{FOLDER}{node_id}{_RESTART}"


def check_known_nodes(
    files: Files, directory: str, broker_ids: Sequence[int], controller_ids: Sequence[int]
) -> None:
    """Raise ClusterFailed if the directory belongs to a cluster with other voters, or has data of
    brokers that `broker_ids` leaves out."""
    known = _known_nodes(files, directory)
    controllers = [each for each in known if each >= CONTROLLERS_FROM]
    brokers = [each for each in known if each < CONTROLLERS_FROM]
    voters = controllers or brokers
    if voters and voters != list(controller_ids):
        own = f" --controllers {len(controllers)}" if controllers else ""
        ids = ", ".join(map(str, voters))
        raise ClusterFailed(
            f"the voters of this cluster's metadata quorum are the nodes {ids}, and others could "
            "elect a leader that lacks what was committed: start it as before, with "
            f"--nodes {len(brokers)}{own}, or give another directory",
            directory=directory,
        )
    left_out = [each for each in brokers if each not in broker_ids]
    if left_out:
        raise ClusterFailed(
            f"there are data of broker {left_out[-1]}, which would be left out: start as many "
            "nodes as before; `moldau broker decommission` takes a broker out of the cluster, "
            "then its folder and its file of settings can be removed",
            folder=f"{directory}/{FOLDER}{left_out[-1]}",
            nodes=len(broker_ids),
        )


def _known_nodes(files: Files, directory: str) -> list[int]:
    found = set()
    for name in files.list(directory):
        number = name.removeprefix(FOLDER).removesuffix(SETTINGS)
        if not (name.startswith(FOLDER) and number.isascii() and number.isdigit()):
            continue
        if name.endswith(SETTINGS) or files.exists(f"{directory}/{name}/{_FORMATTED}"):
            found.add(int(number))
    return sorted(found)


def kept_cluster_id(files: Files, directory: str, random: RandomBytes) -> str:
    """Return the cluster id from its file in the directory; write a new one there if it has none. A
    node that is formatted later then joins the same cluster."""
    path = f"{directory}/{_CLUSTER_ID}"
    if files.exists(path):
        return files.read_text(path).strip()
    cluster_id = format_uuid(new_uuid(random))
    files.write_text_atomic(path, f"{cluster_id}\n")
    return cluster_id


def settings_text(data: str, settings: Mapping[str, str]) -> str:
    """Return the text of a node's file of settings. It must be complete by itself, so it includes
    the settings that a start without a file implies."""
    whole = {
        "log.dirs": data,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
    return format_properties(whole, ("Written at each start of the node.",))
