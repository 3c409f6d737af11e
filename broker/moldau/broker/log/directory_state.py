"""The state of one log directory, which its parts share.

Invariants:
* `logs` has every log in service, and `arriving` only copies that are in `futures` too.
* Once `failure` is set, all logs of the directory have failed, and nothing is written in it any
  more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from moldau.broker.log import names
from moldau.broker.log.disk_room import DiskRoom
from moldau.broker.log.open_files import advice
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.log.future_log import FutureLog
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.names import TopicPartition
    from moldau.errors import CorruptLog
    from moldau.ids import Uuid
    from moldau.runtime.files import Files


class DirectoryState:
    """The facts about a log directory, and its failure."""

    __slots__ = (
        "arriving",
        "cleaned_offsets",
        "failure",
        "files",
        "futures",
        "logs",
        "notes",
        "on_failure",
        "path",
        "room",
        "topic_ids",
    )

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.room = DiskRoom(path)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        self.cleaned_offsets: dict[TopicPartition, int] = {}
        """The offset up to which each compacted log is clean. Set by the cleaner."""
        self.futures: dict[TopicPartition, FutureLog] = {}
        """Copies that are being made in this directory."""
        self.arriving: dict[TopicPartition, PartitionLog] = {}
        """The copies whose points are in the checkpoints already, because they are about to become
        logs of this directory."""
        self.failure: OSError | CorruptLog | None = None
        self.on_failure: Callable[[], None] = lambda: None
        """Called on the first error."""
        self.notes: list[str] = []
        """The problems that were found, in words."""

    def path_of(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return f"{self.path}/{name}"

    def home_of(self, partition: TopicPartition) -> str:
        """Return the path of a log in service."""
        return self.path_of(names.partition_dir_name(partition))

    def logs_in_service(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Iterate over the logs, as long as the directory has not failed."""
        for place, log in list(self.logs.items()):
            if self.failure is None:
                yield place, log

    def open_logs(self) -> list[PartitionLog]:
        """Return the logs and the copies that are open."""
        return [*self.logs.values(), *(each.log for each in self.futures.values() if each.is_open)]

    def fail(self, error: OSError | CorruptLog) -> None:
        """Take the directory out of service for good. Call `on_failure` on the first error."""
        if self.failure is not None:
            return
        self.failure = without_frames(error)
        for log in self.open_logs():
            log.state.take_out_of_service(error)
        self.on_failure()

    def require_service(self) -> None:
        """Reject a request if the directory has failed."""
        if self.failure is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, directory=self.path, error=str(self.failure)
            )

    def refuse_short(self, error: OSError) -> NoReturn:
        """Reject a request because too many files are open. This is no failure of the disk."""
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            advice(error),
            directory=self.path,
            error=str(error),
        ) from error
