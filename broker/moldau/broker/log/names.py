"""What the files and directories of a log are called, and what a name says.

Invariant: what `..._name` makes, the parser beside it reads back; a name that nobody here makes is
None, never an error, because a directory holds other people's files too.

A directory is renamed before it is deleted, so that a crash in between leaves a name that start-up
recognises: `-delete` is removed, `-future` is a copy on its way to this disk, `-stray` is a replica
that the cluster no longer knows and that a person should look at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

DELETED: Final = ".deleted"
LOST: Final = ".lost"
"""Of a segment that recovery has set aside: nobody reads it, and a person may look at it. See
`lost_suffix`."""
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

METADATA_LOG_DIR: Final = "__cluster_metadata-0"
"""The quorum's log, which lies beside those of partitions and is none of them."""
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"

TAKES_OVER: Final = "takes-over"
"""In a log that has just come from another directory: it counts, and one of its name that may still
lie there does not. Holds how often the partition has moved since such a file was last cleared."""

DELETE_DIR: Final = "-delete"
FUTURE_DIR: Final = "-future"
STRAY_DIR: Final = "-stray"

NAME_BYTES_MAX: Final = 255
_OFFSET_DIGITS: Final = 20
_SEGMENT_NAME: Final = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))")
_OUT_OF_USE: Final = re.compile(r"(?:\.deleted|\.cleaned|\.swap|(?:\.\d+)?\.lost)*$")
_PARTITION_DIR: Final = re.compile(r"(\S+)-(\d{1,10})")
_MARKED_DIR: Final = re.compile(r"(\S+)-(\d{0,10})\.([0-9A-Za-z_-]+)(-delete|-future|-stray)")


def segment_file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    """`00000000000000000042.log` and its like; `suffix` as in `.index.cleaned`."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{kind}{suffix}"


def snapshot_name(offset: int) -> str:
    """The file of the producers as they were at `offset`."""
    return segment_file_name(offset, SNAPSHOT)


def parse_segment_file(name: str, suffix: str = "") -> tuple[int, str] | None:
    """(offset, kind) of a segment's file or a snapshot that ends in `suffix`."""
    if suffix:
        if not name.endswith(suffix):
            return None
        name = name[: -len(suffix)]
    found = _SEGMENT_NAME.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def lost_suffix(number: int) -> str:
    """`.lost`, and `.2.lost` where files of that name have been set aside before."""
    return LOST if number == 1 else f".{number}{LOST}"


def split_suffix(name: str) -> tuple[str, str]:
    """A file's name in use, and what says that it is not: `x.index` and `.deleted`."""
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
    """A directory that is no log in service; `mark` is one of the three endings."""

    name: str
    mark: str


def partition_dir_name(partition: TopicPartition) -> str:
    return str(partition)


def parse_partition_dir(name: str) -> TopicPartition | None:
    """The partition whose log the directory holds."""
    found = _PARTITION_DIR.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found else None


def marked_dir_name(partition: TopicPartition, unique: bytes, mark: str) -> str:
    """The directory's name while it is deleted, copied or set aside; 16 random bytes tell apart
    those of topics that had one name. A long topic name is cut: nobody needs it any more."""
    ending = f".{unique.hex()}{mark}"
    name = str(partition)
    if mark != FUTURE_DIR:
        name = name[: NAME_BYTES_MAX - len(ending)]
    return name + ending


def parse_marked_dir(name: str) -> MarkedDir | None:
    """What a marked directory is; its partition cannot be told when the name was cut."""
    for mark in (DELETE_DIR, FUTURE_DIR, STRAY_DIR):
        if name.endswith(mark) and "." in name:
            return MarkedDir(name, mark)
    return None


def parse_future_dir(name: str) -> TopicPartition | None:
    """The partition that a `-future` directory is to replace."""
    found = _MARKED_DIR.fullmatch(name)
    if found is None or found[4] != FUTURE_DIR or not found[2]:
        return None
    return TopicPartition(found[1], int(found[2]))
