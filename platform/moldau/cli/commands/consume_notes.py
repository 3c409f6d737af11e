"""Shows the user of a command the warnings that the client only logs, such as lost records.

The client warns with its logger; the user of a command reads standard error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.client import TopicPartition

_LOGGER: Final = "moldau.client"
_BY_CONSUMERS: Final = "consumer: "


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Add the client's warnings to `notes` during the block, in words for the user."""
    logger, handler = logging.getLogger(_LOGGER), _Notes(notes)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Notes(logging.Handler):
    def __init__(self, notes: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        error = record.args[0] if isinstance(record.args, tuple) and record.args else None
        told = _skipped(error) if isinstance(error, MoldauError) else None
        self._notes.append(told or record.getMessage().removeprefix(_BY_CONSUMERS))


def _skipped(error: MoldauError) -> str | None:
    """Return a note about a position that skipped records; None if the error is another one."""
    facts = error.context
    old, new = facts.get("old_offset"), facts.get("new_offset")
    if not (isinstance(old, int) and isinstance(new, int) and 0 <= old < new):
        return None
    where = f"{facts.get('topic')}-{facts.get('partition')}"
    return f"{where}: {_offsets(old, new)} skipped: offset {old} is not in the log any more"


def gone(where: TopicPartition, old: int, new: int) -> str:
    """Return a note about a log that begins after the offset where reading was to begin."""
    return f"{where}: {_offsets(old, new)} skipped: the log begins at {new}"


def _offsets(old: int, new: int) -> str:
    """Return words for the offsets from `old` to `new` - 1."""
    return f"offset {old} is" if new - old == 1 else f"offsets {old} to {new - 1} are"
