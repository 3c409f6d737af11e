"""The names of a log's files and directories, and how to parse them.

Invariant: the parser beside a `..._name` function reads back what that function makes. A parser
returns None for any other name and never raises, because a directory also holds files that are not
the broker's.

A directory is renamed before it is deleted, so that a crash in between leaves a name that start-up
recognises. `-delete` is removed at start-up. `-future` is a copy on its way to this disk. `-stray`
is a replica that the cluster no longer knows and that an operator should look at.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from moldau.deferred import dataclass, deferred_pattern

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

DELETED: Final = ".deleted"
LOST: Final = ".lost"
"""The ending of a segment that recovery has set aside. The broker does not read it; an operator
may. See `lost_suffix`."""
SHORTENED: Final = ".shortened.deleted"
"""The ending of an empty file beside a log that is being cut. Apache Kafka removes it."""
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

METADATA_LOG_DIR: Final = "__cluster_metadata-0"
"""The log of the metadata quorum. It lies beside the logs of partitions but is not one of them."""
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
LOCAL_STARTS: Final = "local-log-start-offset-checkpoint"
"""Only in a directory with a tiered log. Apache Kafka has no such file, and ignores it."""
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"

TAKES_OVER: Final = "takes-over"
"""A file in a log that was moved here from another directory. The log with this file is the valid
one; a log of the same name that may still lie in the old directory is not. The file holds how often
the partition has moved since such a file was last cleared."""

DELETE_DIR: Final = "-delete"
FUTURE_DIR: Final = "-future"
STRAY_DIR: Final = "-stray"

REMOTE_CACHE_DIR: Final = "remote-log-index-cache"
"""What was fetched from remote storage lies here, as in Kafka."""

NAME_BYTES_MAX: Final = 255
_NAMES_KEPT: Final = 1024
_OFFSET_DIGITS: Final = 20
_SEGMENT_NAME: Final = deferred_pattern(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))")
_OUT_OF_USE: Final = deferred_pattern(r"(?:\.deleted|\.cleaned|\.swap|(?:\.\d+)?\.lost)*$")
_PARTITION_DIR: Final = deferred_pattern(r"(\S+)-(\d{1,10})")
_MARKED_DIR: Final = deferred_pattern(r"(\S+)-(\d{0,10})\.([0-9A-Za-z_-]+)(-delete|-future|-stray)")


def segment_file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    """Return a name such as `00000000000000000042.log`. `suffix` is an extra ending, as in
    `.index.cleaned`."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{kind}{suffix}"


def snapshot_name(offset: int) -> str:
    """Return the name of the file with the producer state at `offset`."""
    return segment_file_name(offset, SNAPSHOT)


@lru_cache(maxsize=_NAMES_KEPT)
def parse_segment_file(name: str, suffix: str = "") -> tuple[int, str] | None:
    """Return (offset, kind) of a segment file or a snapshot whose name ends in `suffix`. Most logs
    have files of the same names, and a start looks at each several times."""
    if suffix:
        if not name.endswith(suffix):
            return None
        name = name[: -len(suffix)]
    found = _SEGMENT_NAME.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def lost_suffix(number: int) -> str:
    """Return `.lost`, or `.2.lost` and so on if files with the earlier endings exist already."""
    return LOST if number == 1 else f".{number}{LOST}"


def split_suffix(name: str) -> tuple[str, str]:
    """Split a file's name into the name in use and the endings that mark it as unused: `x.index`
    and `.deleted`."""
    found = _OUT_OF_USE.search(name)
    end = len(name) if found is None else found.start()
    return name[:end], name[end:]


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class MarkedDir:
    """A directory that is not a log in service. `mark` is one of the three endings."""

    name: str
    mark: str


def partition_dir_name(partition: TopicPartition) -> str:
    return str(partition)


def parse_partition_dir(name: str) -> TopicPartition | None:
    """Return the partition whose log the directory holds."""
    found = _PARTITION_DIR.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found else None


def marked_dir_name(partition: TopicPartition, unique: bytes, mark: str) -> str:
    """Return the directory's name while it is deleted, copied or set aside. `unique` is 16 random
    bytes; they distinguish the directories of topics that had the same name. A long topic name is
    cut, except for a `-future` directory: the name is not needed any more."""
    ending = f".{unique.hex()}{mark}"
    name = str(partition)
    if mark != FUTURE_DIR:
        name = name[: NAME_BYTES_MAX - len(ending)]
    return name + ending


def parse_marked_dir(name: str) -> MarkedDir | None:
    """Recognise a marked directory. The partition is not returned, because the name may have been
    cut."""
    for mark in (DELETE_DIR, FUTURE_DIR, STRAY_DIR):
        if name.endswith(mark) and "." in name:
            return MarkedDir(name, mark)
    return None


def parse_future_dir(name: str) -> TopicPartition | None:
    """Return the partition that a `-future` directory is to replace."""
    found = _MARKED_DIR.fullmatch(name)
    if found is None or found[4] != FUTURE_DIR or not found[2]:
        return None
    return TopicPartition(found[1], int(found[2]))
