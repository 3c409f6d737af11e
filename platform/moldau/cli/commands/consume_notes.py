"""Tell the user of a command what the client only logs: records that are gone, and the like.

The client says it in warnings of its logger; the user of a command reads standard error.
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
    """Within this the client's warnings are in `notes`, in words for people."""
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
    """Of a position that has gone forward over what was not read."""
    facts = error.context
    old, new = facts.get("old_offset"), facts.get("new_offset")
    if not (isinstance(old, int) and isinstance(new, int) and 0 <= old < new):
        return None
    where = f"{facts.get('topic')}-{facts.get('partition')}"
    return f"{where}: {_offsets(old, new)} skipped: offset {old} is not in the log any more"


def gone(where: TopicPartition, old: int, new: int) -> str:
    """Of a log that begins later than reading was to begin."""
    return f"{where}: {_offsets(old, new)} skipped: the log begins at {new}"


def _offsets(old: int, new: int) -> str:
    """From `old` up to what is before `new`."""
    return f"offset {old} is" if new - old == 1 else f"offsets {old} to {new - 1} are"
