"""The metrics of a node's replicas and logs.

All values are computed when the metrics are read: no record is counted on its way. The comments
name Kafka's metrics of the same meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.broker.replication.replicas import Replicas
    from moldau.metrics import Registry


def declare(registry: Registry, replicas: Replicas) -> None:
    """Declare the metrics, once for a node."""
    directories = replicas.directories
    gauge = registry.read_gauge
    gauge(
        "moldau.replication.purgatory.size",  # DelayedOperationPurgatory PurgatorySize
        "Requests that wait: for bytes, for acknowledgements, for the controller.",
        "{request}",
        read=lambda: len(replicas.purgatory),
    )
    gauge(
        "moldau.replication.partitions",  # ReplicaManager PartitionCount
        "Replicas on this node that are in service.",
        "{partition}",
        read=lambda: sum(1 for _ in replicas),
    )
    gauge(
        "moldau.replication.leaders",  # ReplicaManager LeaderCount
        "Partitions that this node leads.",
        "{partition}",
        read=lambda: sum(1 for each in replicas if each.is_leader),
    )
    gauge(
        "moldau.replication.moves",
        "Replicas on their way to another log directory.",
        "{partition}",
        read=lambda: len(replicas.moves),
    )
    gauge(
        "moldau.log.directories.offline",  # LogManager OfflineLogDirectoryCount
        "Log directories that are out of service.",
        "{directory}",
        read=lambda: (
            len(directories.unopened) + len(directories.directories) - len(directories.in_service())
        ),
    )
    gauge(
        "moldau.log.directories.short",
        "Log directories that take no produces and no copies: their disks are nearly full.",
        "{directory}",
        read=lambda: sum(each.state.room.is_short for each in directories.in_service()),
    )
    _declare_logs(registry, replicas)


def _declare_logs(registry: Registry, replicas: Replicas) -> None:
    directories, cleaner = replicas.directories, replicas.cleaner
    gauge = registry.read_gauge
    gauge(
        "moldau.log.size",  # Log Size, of all partitions
        "Bytes in the logs of partitions.",
        "By",
        read=lambda: sum(log.size_bytes for _, log in directories.logs()),
    )
    gauge(
        "moldau.log.segments",  # Log NumLogSegments, of all partitions
        "Segments of the logs of partitions.",
        "{segment}",
        read=lambda: sum(len(log.segments) for _, log in directories.logs()),
    )
    gauge(
        "moldau.log.cleaner.uncleanable",  # LogCleanerManager uncleanable-partitions-count
        "Logs that cannot be compacted and are set aside.",
        "{partition}",
        read=lambda: len(cleaner.uncleanable),
    )
    gauge(
        "moldau.log.cleaner.active",
        "Logs that are being compacted.",
        "{partition}",
        read=lambda: cleaner.busy_count,
    )
