"""Formatting log directories for a cluster, and telling what they are: kafka-storage's work.

Invariants: `meta.properties` is written last, so a directory counts as formatted only when all that
belongs to it is durable, and formatting that was cut short can be done again; a directory that is
formatted already is never touched.

What is written: in each directory `meta.properties` with an id of its own and
`bootstrap.checkpoint` with the cluster's first records; in the metadata directory, for voters that
the log itself names (KIP-853), the snapshot `0-0` with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    Heading,
    SnapshotId,
    read_snapshot,
    write_snapshot,
)
from moldau.broker.raft.voters import DYNAMIC, STATIC, Voter, Voters
from moldau.errors import ConfigError, CorruptLog
from moldau.ids import RandomBytes, Uuid, new_uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import FeatureLevelRecord
from moldau.runtime.files import Files

_SETTINGS: Final = Voters(STATIC, ())
_FIRST: Final = SnapshotId(0, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the directories are to be formatted for.

    `controller_endpoints` (listener, host, port) make this node the first voter, named in the log;
    None leaves the voters to `controller.quorum.voters`, or makes a node that is no voter yet.
    """

    cluster_id: str
    node_id: int
    directories: tuple[str, ...]
    metadata_directory: str
    bootstrap: tuple[MetadataRecord, ...]
    controller_endpoints: tuple[tuple[str, str, int], ...] | None = None
    first_voters: tuple[Voter, ...] = ()
    """All of the first voters, each with its disk; this node's own is formatted with that id."""

    @property
    def own_voter(self) -> Voter | None:
        """This node among the first voters."""
        return next((each for each in self.first_voters if each.voter_id == self.node_id), None)


@dataclass(frozen=True, slots=True)
class DirectoryInfo:
    """What one directory says of itself."""

    path: str
    meta: MetaProperties | None
    problem: str | None = None


def format_storage(
    files: Files, plan: Plan, random: RandomBytes, now_ms: int, *, ignore_formatted: bool = False
) -> list[str]:
    """Format the directories that are not; which ones. Durable on return.

    ConfigError when one is formatted already (unless `ignore_formatted`), or belongs to another
    cluster or node; then nothing was written.
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
            raise ConfigError("the directory is formatted already", directory=path)
    for path in todo:
        own = plan.own_voter if path == plan.metadata_directory else None
        directory_id = new_uuid(random) if own is None else own.directory_id
        _format(files, plan, path, directory_id, now_ms)
    return todo


def _format(files: Files, plan: Plan, path: str, directory_id: Uuid, now_ms: int) -> None:
    files.make_dirs(path)
    heading = Heading(epoch=0, last_contained_timestamp_ms=0, now_ms=now_ms, voters=_SETTINGS)
    batches = batches_of(plan.bootstrap, _metadata_version(plan.bootstrap), now_ms)
    write_snapshot(files, f"{path}/{BOOTSTRAP}", heading, batches)
    voters = plan.first_voters
    if plan.controller_endpoints is not None:
        voters = (Voter(plan.node_id, directory_id, plan.controller_endpoints),)
    if path == plan.metadata_directory and voters:
        files.make_dirs(f"{path}/{DIRECTORY}")
        first = Heading(0, now_ms, now_ms, Voters(DYNAMIC, voters))
        write_snapshot(files, f"{path}/{DIRECTORY}/{_FIRST.file_name}", first, [])
    meta = MetaProperties(plan.cluster_id, plan.node_id, directory_id)
    write_meta_properties(files, path, meta)


def _metadata_version(records: Sequence[MetadataRecord]) -> int:
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == "metadata.version":
            return record.feature_level
    raise ConfigError("the first records of a cluster name no metadata.version")


def read_bootstrap(files: Files, directory: str) -> list[MetadataRecord]:
    """The cluster's first records as `format` left them; empty when there is no such file."""
    path = f"{directory}/{BOOTSTRAP}"
    if not files.exists(path):
        return []
    snapshot = read_snapshot(files, path, _SETTINGS)
    return [record for batch in snapshot.batches for record in decode_records(batch)]


def storage_info(files: Files, directories: Sequence[str]) -> list[DirectoryInfo]:
    """What the directories are, and what is wrong with them or between them."""
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
