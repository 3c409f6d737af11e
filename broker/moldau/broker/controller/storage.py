"""Format log directories for a cluster, and describe them: the work of kafka-storage.

Invariants: `meta.properties` is written last. So a directory counts as formatted only if all its
files are durable, and formatting that was interrupted can be repeated. A directory that is
formatted already is never changed.

Each directory gets `meta.properties` with its own id, and `bootstrap.checkpoint` with the cluster's
first records. If the log itself names the voters (KIP-853), the metadata directory also gets the
snapshot `0-0` with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.broker.controller.metadata_batches import batches_of, decode_records
from moldau.broker.log.meta_properties import (
    MetaProperties,
    check_whole,
    read_meta_properties,
    write_meta_properties,
)
from moldau.broker.raft.quorum import DIRECTORY
from moldau.broker.raft.snapshots import (
    BOOTSTRAP,
    SnapshotHeader,
    SnapshotId,
    read_snapshot,
    write_snapshot,
)
from moldau.broker.raft.voters import DYNAMIC, STATIC, Voter, Voters
from moldau.deferred import dataclass
from moldau.errors import ConfigError, CorruptLog
from moldau.ids import RandomBytes, Uuid, new_uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import FeatureLevelRecord
from moldau.runtime.files import Files

_SETTINGS: Final = Voters(STATIC, ())
_FIRST: Final = SnapshotId(0, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of formatting.

    `controller_endpoints` (listener, host, port) make this node the first voter, named in the log.
    None leaves the voters to `controller.quorum.voters`, or makes a node that is not a voter yet.
    """

    cluster_id: str
    node_id: int
    directories: tuple[str, ...]
    metadata_directory: str
    bootstrap: tuple[MetadataRecord, ...]
    controller_endpoints: tuple[tuple[str, str, int], ...] | None = None
    first_voters: tuple[Voter, ...] = ()
    """All first voters, each with its directory id. This node's metadata directory is formatted
    with its own id."""

    @property
    def own_voter(self) -> Voter | None:
        """The entry of this node among the first voters, or None."""
        return next((each for each in self.first_voters if each.voter_id == self.node_id), None)


@dataclass(frozen=True, slots=True)
class DirectoryInfo:
    """The description of one directory."""

    path: str
    meta: MetaProperties | None
    problem: str | None = None


def format_storage(
    files: Files, plan: Plan, random: RandomBytes, now_ms: int, *, ignore_formatted: bool = False
) -> list[str]:
    """Format the directories that are not formatted, and return their paths. Durable on return.

    Raise ConfigError if one is formatted already (unless `ignore_formatted`) or belongs to another
    cluster or node. Then nothing was written.
    """
    assert plan.metadata_directory in plan.directories
    todo = []
    for path in plan.directories:
        meta = read_meta_properties(files, path)
        if meta is None:
            todo.append(path)
            continue
        check_whole(meta, path)
        if meta.cluster_id != plan.cluster_id or meta.node_id != plan.node_id:
            raise ConfigError(
                "the directory belongs to another cluster or node",
                directory=path,
                cluster_id=meta.cluster_id,
                node_id=meta.node_id,
            )
        if not ignore_formatted:
            raise ConfigError(
                "the directory is formatted already: give another one (`moldau storage format "
                "--ignore-formatted` passes over it)",
                directory=path,
            )
    for path in todo:
        own = plan.own_voter if path == plan.metadata_directory else None
        directory_id = new_uuid(random) if own is None else own.directory_id
        _format(files, plan, path, directory_id, now_ms)
    return todo


def _format(files: Files, plan: Plan, path: str, directory_id: Uuid, now_ms: int) -> None:
    files.make_dirs(path)
    heading = SnapshotHeader(
        epoch=0, last_contained_timestamp_ms=0, now_ms=now_ms, voters=_SETTINGS
    )
    batches = batches_of(plan.bootstrap, _metadata_version(plan.bootstrap), now_ms)
    write_snapshot(files, f"{path}/{BOOTSTRAP}", heading, batches)
    voters = plan.first_voters
    if plan.controller_endpoints is not None:
        voters = (Voter(plan.node_id, directory_id, plan.controller_endpoints),)
    if path == plan.metadata_directory and voters:
        files.make_dirs(f"{path}/{DIRECTORY}")
        first = SnapshotHeader(0, now_ms, now_ms, Voters(DYNAMIC, voters))
        write_snapshot(files, f"{path}/{DIRECTORY}/{_FIRST.file_name}", first, [])
    meta = MetaProperties(plan.cluster_id, plan.node_id, directory_id)
    write_meta_properties(files, path, meta)


def _metadata_version(records: Sequence[MetadataRecord]) -> int:
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == "metadata.version":
            return record.feature_level
    raise ConfigError("the first records of a cluster name no metadata.version")


def read_bootstrap(files: Files, directory: str) -> list[MetadataRecord]:
    """Return the cluster's first records that `format` wrote; empty if the file does not exist."""
    path = f"{directory}/{BOOTSTRAP}"
    if not files.exists(path):
        return []
    snapshot = read_snapshot(files, path, _SETTINGS)
    return [record for batch in snapshot.batches for record in decode_records(batch)]


def storage_info(files: Files, directories: Sequence[str]) -> list[DirectoryInfo]:
    """Return the description of each directory, and the problems in them or between them."""
    found: list[DirectoryInfo] = []
    seen: MetaProperties | None = None
    for path in directories:
        if not files.exists(path):
            found.append(DirectoryInfo(path, None, "the directory does not exist"))
            continue
        try:
            meta = read_meta_properties(files, path)
            if meta is not None:
                check_whole(meta, path)
        except (CorruptLog, ConfigError) as error:
            found.append(DirectoryInfo(path, None, str(error)))
            continue
        problem = None
        if meta is None:
            problem = "the directory is not formatted"
        elif seen is not None and (meta.cluster_id, meta.node_id) != (
            seen.cluster_id,
            seen.node_id,
        ):
            problem = "the directory belongs to another cluster or node than those before it"
        seen = seen or meta
        found.append(DirectoryInfo(path, meta, problem))
    return found
