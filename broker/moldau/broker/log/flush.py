"""Making a log durable, with the one step that may stall in a job for a thread.

Invariants: everything that a `FlushJob` covers is durable when `run` returns, names included. Only
then does the log report it (`PartitionLog.end_flush`). A job holds the files that it syncs, so a
segment may be rolled, renamed or deleted while it runs. After an OSError nothing may be assumed any
more: the kernel has dropped what it could not write. A log has one flush at a time, because two
would write the leader epochs' new file at once. `GroupCommit` ensures that while the log is in
service.

For the active segment it is enough to sync the log, because its indexes can be rebuilt. The indexes
of sealed segments are synced too, since recovery will not check those segments again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moldau.broker.log import names
from moldau.broker.log.checkpoint import pairs_text
from moldau.broker.log.slice import SegmentFile

if TYPE_CHECKING:
    from moldau.broker.log.leader_epochs import LeaderEpochs
    from moldau.broker.log.segment import Segment
    from moldau.runtime.files import File, Files

_NEW: Final = ".new"


class FlushJob:
    """The files to sync so that everything below `end_offset` is durable."""

    __slots__ = (
        "_files",
        "_indexes",
        "_paths",
        "_sources",
        "directory",
        "end_offset",
        "epochs",
        "epochs_changes",
        "head_offset",
        "home",
        "is_last",
        "placed_epochs",
        "sealed",
        "truncations",
    )

    def __init__(
        self,
        files: Files,
        end_offset: int,
        segments: Sequence[Segment],
        paths: Sequence[str] = (),
    ) -> None:
        """`segments` are in the order of their offsets. `paths` are other files to sync."""
        self._files = files
        self.directory: str | None = None
        """The log's directory, if names in it are not durable yet."""
        self.end_offset = end_offset
        # By name, since their files are closed when the segment is renamed.
        self.sealed = [each for each in segments if each.is_sealed]
        self._paths = [*paths, *(each.path(names.TRANSACTION_INDEX) for each in self.sealed)]
        self.truncations = 0
        self.home: str | None = None
        """The log's directory, if neither its name nor its `partition.metadata` is durable yet."""
        self.is_last = False
        """Whether the caller syncs the parent directory once for all its logs."""
        self.epochs: tuple[str, str] | None = None
        """The file of the leader epochs and its new text, which is written beside it."""
        self.epochs_changes = 0
        self.placed_epochs = -1
        """The changes of the epochs in the file whose name this job makes durable."""
        self.head_offset = 0
        """The base offset of the newest segment whose name this job makes durable."""
        # An empty segment has no records to lose.
        self._sources: list[SegmentFile] = [
            each.log_file.source() for each in segments if each.size_bytes
        ]
        self._indexes = [
            index
            for each in self.sealed
            for index in each.mapped_indexes()
            if index.count or index.was_cut
        ]

    def place_epochs(self) -> None:
        """Rename the file that `run` has written to its final name."""
        assert self.epochs is not None
        self._files.rename(self.epochs[0] + _NEW, self.epochs[0])

    @property
    def only_file(self) -> File | None:
        """The log file of the only segment, if nothing else must be synced."""
        is_more = (
            len(self._sources) != 1
            or self.sealed
            or self._paths
            or self.directory is not None
            or self.home is not None
            or self.epochs is not None
        )
        return None if is_more else self._sources[0].file

    def run(self) -> None:
        """Sync everything. Run it with `Runtime.run_blocking`."""
        if self.home is not None:
            self._sync_home(self.home)
        if self.epochs is not None:
            self._write_epochs(*self.epochs)
        for source in self._sources:
            source.file.sync(data_only=True)
        for index in self._indexes:
            index.sync()
        for path in self._paths:
            with suppress(FileNotFoundError), self._files.open(path, "update") as file:
                file.sync()
        if self.directory is not None:
            with suppress(FileNotFoundError):  # the log was deleted meanwhile
                self._files.sync_dir(self.directory)

    def _sync_home(self, directory: str) -> None:
        path = f"{directory}/{names.PARTITION_METADATA}"
        with suppress(FileNotFoundError), self._files.open(path, "update") as file:
            file.sync()
        if not self.is_last:
            self._files.sync_dir(directory.rpartition("/")[0])

    def _write_epochs(self, path: str, text: str) -> None:
        with suppress(FileNotFoundError), self._files.open(path + _NEW, "write") as file:
            file.truncate(0)
            file.append(text.encode())
            file.sync()


class Durability:
    """The durability of the parts of a log other than its batches: names, its directory and id,
    leader epochs."""

    __slots__ = (
        "_are_names_durable",
        "_changes",
        "_durable",
        "_saved",
        "are_epochs_wanted",
        "is_home_durable",
        "newest_head",
    )

    def __init__(self, newest_head: int, is_clean: bool = False) -> None:
        """`is_clean`: the log was closed cleanly. An empty log never counts as clean, because
        closing it syncs nothing. The epochs are those in its file."""
        self.is_home_durable = is_clean
        """Whether the log's directory and its `partition.metadata` are durable."""
        self.newest_head = newest_head if is_clean else -1
        """Segments up to this offset may become the first one: their names are durable."""
        self.are_epochs_wanted = False
        """Whether a flush is due until the leader epochs are durable."""
        self._are_names_durable = is_clean
        # Changes of the epochs: all, those in the file, and those in a file with a durable name.
        self._changes = self._saved = 0
        self._durable = 0 if is_clean else -1

    @property
    def are_names_durable(self) -> bool:
        return self._are_names_durable

    @property
    def is_settled(self) -> bool:
        """Whether all these parts are durable."""
        return self._are_names_durable and self.is_home_durable and self._saved == self._changes

    @property
    def are_epochs_durable(self) -> bool:
        """Whether the leader epochs outlive a loss of power without any batch that has them."""
        return self._durable == self._changes

    def names_changed(self) -> None:
        """Note that a file was created or renamed."""
        self._are_names_durable = False

    def epochs_changed(self) -> None:
        """Note that the leader epochs differ from those in their file."""
        self._changes += 1

    def epochs_saved(self) -> None:
        """Note that the file holds the leader epochs, durably."""
        self._saved = self._durable = self._changes

    def cut(self, head_offset: int) -> None:
        """Note that segments behind `head_offset` are gone, and that new ones may begin at the same
        offsets."""
        self.newest_head = min(self.newest_head, head_offset)

    def begin(self, job: FlushJob, directory: str, epochs: LeaderEpochs) -> None:
        """Add to the job the parts that are not durable yet."""
        if not self._are_names_durable or self._durable < self._saved:
            job.directory, job.placed_epochs = directory, self._saved
        if not self.is_home_durable:
            job.home = directory
        if self._saved != self._changes:
            path = f"{directory}/{names.LEADER_EPOCHS}"
            job.epochs, job.epochs_changes = (path, pairs_text(epochs.entries)), self._changes
        self._are_names_durable = True

    def end(self, job: FlushJob, directory: str) -> None:
        """Note that the job has run. Rename the new epochs to their file's name. The rename is
        durable with the next flush, and until then recovery must not trust the segments that they
        cover. Raise OSError if the disk fails."""
        self.newest_head = max(self.newest_head, job.head_offset)
        if job.directory is not None:
            self._durable = max(self._durable, job.placed_epochs)
            self.are_epochs_wanted &= not self.are_epochs_durable
        if job.home is not None:
            self.is_home_durable = True
        if job.epochs is None or job.epochs_changes != self._changes:
            return
        if job.epochs[0] == f"{directory}/{names.LEADER_EPOCHS}":
            with suppress(FileNotFoundError):  # the log was deleted meanwhile
                job.place_epochs()
            self._saved = self._changes
            self._are_names_durable = False
