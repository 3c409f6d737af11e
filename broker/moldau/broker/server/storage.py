"""The directories of a node: their paths, the cluster that they belong to, and their formatting.

Invariants:
* A node starts only in directories that were formatted for it.
* The files that formatting writes for a node depend only on its settings. So `moldau storage
  format` and a broker that formats its own directories write the same.
* A broker formats its own directories only if nothing is lost: none of them has been used. An empty
  directory beside a used one may be a disk that is not mounted, and its data would be lost without
  notice.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.controller.bootstrap import bootstrap_records
from moldau.broker.controller.storage import Plan, format_storage
from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.meta_properties import check_whole, read_meta_properties
from moldau.broker.log.names import LOCK, META_PROPERTIES
from moldau.broker.raft.quorum import DIRECTORY
from moldau.broker.raft.snapshots import BOOTSTRAP, SnapshotId
from moldau.broker.raft.voters import Voter
from moldau.broker.settings import read_listeners
from moldau.broker.settings.controller import controller_quorum_voters, metadata_log_dir
from moldau.broker.settings.log import cordoned_log_dirs, log_dirs
from moldau.broker.settings.node import node_id, process_roles
from moldau.broker.settings.syntax import parse_voter
from moldau.config import Settings
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.ids import RandomBytes, Uuid, format_uuid, new_uuid, parse_uuid
from moldau.protocol.declare import MetadataRecord
from moldau.runtime.files import Files


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of a node: `logs` for partitions, `metadata` for the metadata log."""

    logs: tuple[str, ...]
    metadata: str

    @property
    def all(self) -> tuple[str, ...]:
        """Every directory once, in order."""
        return self.logs if self.metadata in self.logs else (*self.logs, self.metadata)


def places_of(settings: Settings) -> Places:
    """Return the directories from the settings. The paths must be absolute."""
    logs = settings[log_dirs]
    assert logs, "one of log.dirs and log.dir always has a value"
    metadata = settings[metadata_log_dir]
    return Places(logs, logs[0] if metadata is None else metadata)


def cordoned_directories(settings: Settings, directories: LogDirectories) -> list[Uuid]:
    """Return the directories that take no new replicas (KIP-1066), to report to the controller."""
    named = settings[cordoned_log_dirs]
    return [
        each.directory_id
        for each in directories.directories
        if each.path in named or named == ("*",)
    ]


def cluster_of(files: Files, settings: Settings) -> str:
    """Return the id of the node's cluster from its metadata directory.

    Raise ConfigError if the directory is not formatted, or is formatted for another node.
    """
    path = places_of(settings).metadata
    meta = read_meta_properties(files, path)
    if meta is None:
        raise ConfigError(
            "the directory is not formatted; `moldau storage format` does it", directory=path
        )
    check_whole(meta, path)
    assert meta.cluster_id is not None
    if meta.node_id != settings[node_id]:
        raise ConfigError(
            "the directory belongs to another node",
            directory=path,
            found=meta.node_id,
            expected=settings[node_id],
        )
    return meta.cluster_id


def plan_of(
    settings: Settings,
    cluster_id: str,
    bootstrap: Sequence[MetadataRecord] = (),
    *,
    is_standalone: bool,
    host_name: str,
    first_voters: Sequence[str] = (),
) -> Plan:
    """Return what formatting must write.

    `is_standalone`: this node is the first and only voter. The log names it with the endpoints from
    the settings, and with `host_name` where they name no host. `first_voters`: all first voters, as
    `id@host:port:directory-id`.
    """
    places = places_of(settings)
    endpoints = None
    if is_standalone:
        endpoints = tuple(
            (each.name, each.host or host_name, each.port)
            for each in read_listeners(settings).advertised_controller
        )
        if not endpoints:
            raise ConfigError("a node that is no controller cannot be the first voter")
    return Plan(
        cluster_id=cluster_id,
        node_id=settings[node_id],
        directories=places.all,
        metadata_directory=places.metadata,
        bootstrap=tuple(bootstrap) or tuple(bootstrap_records()),
        controller_endpoints=endpoints,
        first_voters=_first_voters(settings, first_voters),
    )


def _first_voters(settings: Settings, given: Sequence[str]) -> tuple[Voter, ...]:
    listener = read_listeners(settings).controller_names[0] if given else ""
    found: dict[int, Voter] = {}
    for text in given:
        where, _, directory = text.rpartition(":")
        voter = parse_voter(where)
        try:
            directory_id = parse_uuid(directory)
        except ValueError:
            voter = None
        if voter is None:
            raise ConfigError("an initial controller is id@host:port:directory-id", given=text)
        if voter.node_id in found:
            raise ConfigError("an initial controller is named twice", node_id=voter.node_id)
        at = listener, voter.address.host, voter.address.port
        found[voter.node_id] = Voter(voter.node_id, directory_id, (at,))
    if found and settings[node_id] not in found:
        raise ConfigError(
            "the initial controllers do not name this node; one that joins them later is formatted "
            "with --no-initial-controllers",
            node_id=settings[node_id],
        )
    return tuple(found.values())


def format_if_empty(
    files: Files,
    settings: Settings,
    random: RandomBytes,
    now_ms: int,
    host_name: str,
    cluster_id: str | None = None,
) -> bool:
    """Format the empty directories of a node. Return whether that made a new cluster. With
    `cluster_id` they belong to that cluster, whose voters the settings name.

    Raise ConfigError if an unformatted directory holds other files, or if another directory is in
    use. An interrupted formatting is repeated.
    """
    places = places_of(settings)
    todo = [path for path in places.all if read_meta_properties(files, path) is None]
    used = next((path for path in places.all if path not in todo and _is_used(files, path)), None)
    for path in todo:
        if used is not None:
            raise _not_there(places, path, used)
        if _is_used(files, path):
            raise ConfigError(
                "the directory is not formatted and holds other files: give an empty one, or "
                "one of a broker",
                directory=path,
            )
    known = known_cluster(files, places)
    if known and cluster_id and known != cluster_id:
        raise ConfigError(
            f"the directories belong to the cluster {known}, not to {cluster_id}: leave out "
            "--cluster-id, or give empty directories",
        )
    if not todo:
        return False
    if settings[controller_quorum_voters] and not (known or cluster_id):
        raise ConfigError(
            "the voters of controller.quorum.voters share a cluster id: give it with --cluster-id, "
            "or format the directories with `moldau storage format`"
        )
    is_controller = "controller" in settings[process_roles]
    if not (is_controller or known or cluster_id):
        raise ConfigError(
            "a broker joins a cluster that exists: give its id with --cluster-id, or format the "
            "directories with `moldau storage format`"
        )
    is_standalone = is_controller and not settings[controller_quorum_voters]
    chosen = known or cluster_id or format_uuid(new_uuid(random))
    plan = plan_of(settings, chosen, is_standalone=is_standalone, host_name=host_name)
    format_storage(files, plan, random, now_ms, ignore_formatted=True)
    return known is None


def _not_there(places: Places, path: str, used: str) -> ConfigError:
    """Return the error for an unformatted directory while others of the node are in use."""
    if path == places.metadata:
        advice = "without its metadata, the data there belong to no topic"
    else:
        advice = (
            "a new one is added by `moldau storage format --ignore-formatted` with the --data, "
            "--config and --set of this node"
        )
    return ConfigError(
        f"the directory is not formatted, and this node has data elsewhere: is its disk mounted? "
        f"({advice})",
        directory=path,
        in_use=used,
    )


def known_cluster(files: Files, places: Places) -> str | None:
    """Return the cluster id that any of the directories was formatted for, or None."""
    for path in places.all:
        meta = read_meta_properties(files, path)
        if meta is not None and meta.cluster_id is not None:
            return meta.cluster_id
    return None


_LEFT_BY_FORMATTING = frozenset((META_PROPERTIES, BOOTSTRAP, DIRECTORY, LOCK, "lost+found"))
_LEFT_OF_METADATA = frozenset((SnapshotId(0, 0).file_name,))


def _is_used(files: Files, path: str) -> bool:
    """Whether the directory contains more files than formatting leaves, complete or interrupted."""
    metadata = f"{path}/{DIRECTORY}"
    return bool(
        _names_in(files, path) - _LEFT_BY_FORMATTING
        or _names_in(files, metadata) - _LEFT_OF_METADATA
    )


def _names_in(files: Files, path: str) -> set[str]:
    """Return the names in the directory, without the suffixes of temporary files."""
    if not files.exists(path):
        return set()
    return {name.removesuffix(".tmp").removesuffix(".part") for name in files.list(path)}
