"""Passes lines that other libraries log with the standard `logging` to our own log."""

from __future__ import annotations

import logging

from moldau.logging.fields import text_of
from moldau.logging.level import Level
from moldau.logging.loggers import Loggers

_BELOW = ((50, Level.FATAL), (40, Level.ERROR), (30, Level.WARN), (20, Level.INFO))


class StandardLines(logging.Handler):
    """A handler for the standard root logger: `logging.getLogger().addHandler(...)`.

    Our levels apply: set the standard root logger to NOTSET, and ours decide by the logger's name.
    """

    def __init__(self, loggers: Loggers) -> None:
        super().__init__()
        self._loggers = loggers

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of the standard library, which calls this for each of its lines."""
        level = _level(record.levelno)
        logger = self._loggers.get(record.name)
        if not logger.is_enabled(level):
            return
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and level >= Level.ERROR:
            logger.failure(record.getMessage(), error)
        else:
            fields = (
                {} if error is None else {"error": type(error).__name__, "reason": text_of(error)}
            )
            self._loggers.emit(level, logger, record.getMessage(), fields)


def _level(number: int) -> Level:
    for lowest, level in _BELOW:
        if number >= lowest:
            return level
    return Level.DEBUG if number >= Level.DEBUG else Level.TRACE
