"""The facts of log lines as JSON, for the program that runs this one and reads no text.

A line is the text of what was logged, as `text`, and its facts by their names. Each process writes
a file of its own in the directory that EVENTS names, as a file has one writer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

EVENTS: Final = "MOLDAU_EVENTS"
"""The variable of the environment that names the directory."""


@runtime_checkable
class WithFacts(Protocol):
    """Something with facts that is logged: an error, for one."""

    @property
    def context(self) -> Mapping[str, object]: ...


class EventLines(logging.Handler):
    """A handler for the standard root logger that writes what has facts."""

    def __init__(self, append: Callable[[bytes], object]) -> None:
        super().__init__()
        self._append = append

    def emit(self, record: logging.LogRecord) -> None:
        """Write the facts of the first argument of a line, if it has some."""
        what = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if isinstance(what, WithFacts):
            line = json.dumps({"text": str(what), **what.context}, default=str)
            self._append(f"{line}\n".encode())
