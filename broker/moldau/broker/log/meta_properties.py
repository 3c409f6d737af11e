"""`meta.properties`: the cluster, node and directory id that a log directory was formatted for.

Invariants: a directory of another cluster or node is rejected, never adopted. Directory ids are
unique, so the controller can tell disks apart (KIP-858). Version 1 is written. Version 0, of
ZooKeeper mode, is read only to reject it with a clear error.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.log.names import META_PROPERTIES
from moldau.config.properties import format_properties, parse_properties
from moldau.deferred import dataclass
from moldau.errors import ConfigError, CorruptLog
from moldau.ids import Uuid, format_uuid, parse_uuid
from moldau.runtime.files import Files

VERSION: Final = 1
_WAY_OUT: Final = (
    "put it back from a copy, or write its lines anew: version=1, cluster.id, node.id and "
    "directory.id, which the last RegisterBrokerRecord of the metadata log names (`moldau log dump "
    "--records` shows it); if the data may go, remove the directory and format it"
)


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The contents of the file. A missing value is None."""

    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None
    version: int = VERSION


def write_meta_properties(files: Files, directory: str, meta: MetaProperties) -> None:
    """Format the directory, or replace its properties. Durable on return."""
    values = {"version": str(meta.version)}
    if meta.cluster_id is not None:
        values["cluster.id"] = meta.cluster_id
    if meta.node_id is not None:
        values["node.id"] = str(meta.node_id)
    if meta.directory_id is not None:
        values["directory.id"] = format_uuid(meta.directory_id)
    text = format_properties(values)
    files.write_text_atomic(f"{directory}/{META_PROPERTIES}", text)


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """Return the directory's properties, or None if it is not formatted."""
    path = f"{directory}/{META_PROPERTIES}"
    if not files.exists(path):
        return None
    try:
        values = {each.key: each.value for each in parse_properties(files.read_text(path), path)}
        version = int(values.get("version", "0"))
        node = values.get("node.id", values.get("broker.id"))
        directory_id = values.get("directory.id")
        meta = MetaProperties(
            values.get("cluster.id"),
            None if node is None else int(node),
            None if directory_id is None else parse_uuid(directory_id),
            version,
        )
    except (ValueError, ConfigError) as error:
        raise CorruptLog(f"meta.properties is malformed: {_WAY_OUT}", path=path) from error
    if version not in (0, VERSION):
        raise CorruptLog("meta.properties has another version", path=path, version=version)
    return meta


def check_whole(meta: MetaProperties, path: str) -> None:
    """Raise ConfigError if the file lacks the cluster or node id."""
    said = {"cluster.id": meta.cluster_id, "node.id": meta.node_id}
    missing = [name for name, value in said.items() if value is None]
    if missing:
        raise ConfigError(
            f"meta.properties is damaged: {_WAY_OUT}", directory=path, missing=", ".join(missing)
        )


def check_meta_properties(meta: MetaProperties, cluster_id: str, node_id: int, path: str) -> None:
    """Raise ConfigError if the directory belongs to another cluster or node, or does not name
    one."""
    check_whole(meta, path)
    if meta.version != VERSION:
        raise ConfigError(
            "the directory was formatted for ZooKeeper mode; format it anew", directory=path
        )
    if meta.cluster_id != cluster_id:
        raise ConfigError(
            "the directory belongs to another cluster",
            directory=path,
            found=meta.cluster_id,
            expected=cluster_id,
        )
    if meta.node_id != node_id:
        raise ConfigError(
            "the directory belongs to another node",
            directory=path,
            found=meta.node_id,
            expected=node_id,
        )
