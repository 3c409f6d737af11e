"""Making a log durable, in the one step of it that may stall a thread of its own.

Invariant: what a `FlushJob` was made for is durable when `run` returns, names included; only then
does the log say so (`PartitionLog.end_flush`). A job holds the files that it syncs, so a segment
may be rolled, renamed or deleted while it runs. After an OSError nothing may be assumed ever again:
the kernel has forgotten what it could not write.

Bytes of a segment in use are enough for a promise, as its indexes can be made anew; those of sealed
segments are synced too, since recovery will not look at them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.broker.log import names
from moldau.broker.log.slice import SegmentFile

if TYPE_CHECKING:
    from moldau.broker.log.segment import Segment
    from moldau.runtime.files import Files


class FlushJob:
    """What has to be synced so that all below `end_offset` is durable."""

    __slots__ = (
        "_directory",
        "_files",
        "_indexes",
        "_paths",
        "_sources",
        "end_offset",
        "sealed",
        "truncations",
    )

    def __init__(
        self,
        files: Files,
        directory: str | None,
        end_offset: int,
        segments: Sequence[Segment],
        paths: Sequence[str] = (),
    ) -> None:
        """`segments` in the order of their offsets, `paths` of other files; `directory` when names
        in it are not durable yet."""
        self._files = files
        self._directory = directory
        self.end_offset = end_offset
        # By name, since their files are closed when the segment is renamed.
        self.sealed = [each for each in segments if each.is_sealed]
        self._paths = [*paths, *(each.path(names.TRANSACTION_INDEX) for each in self.sealed)]
        self.truncations = 0
        self._sources: list[SegmentFile] = [each.source for each in segments]
        self._indexes = [index for each in self.sealed for index in each.mapped_indexes()]

    def run(self) -> None:
        """Sync; meant for `Runtime.run_blocking`."""
        for source in self._sources:
            source.file.sync(data_only=True)
        for index in self._indexes:
            index.sync()
        for path in self._paths:
            with suppress(FileNotFoundError), self._files.open(path, "update") as file:
                file.sync()
        if self._directory is not None:
            with suppress(FileNotFoundError):  # deleted as a whole meanwhile
                self._files.sync_dir(self._directory)
