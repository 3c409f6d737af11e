"""The offsets of a log, for readers."""

from __future__ import annotations

from typing import Protocol


class LogOffsets(Protocol):
    """The offsets of one log, as they are now. Read only; `LogState` has them."""

    @property
    def log_start_offset(self) -> int:
        """The offset of the first record that can be read."""

    @property
    def local_log_start_offset(self) -> int:
        """The offset of the first record that can be read in the log itself."""

    @property
    def high_watermark(self) -> int:
        """The offset below which records are as safe as the topic requires."""

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
