"""What the code of a simulated node logs, kept with the node.

Libraries log by the standard library, whose loggers are the process's: all nodes would log to one
place, at the machine's time. The context says which node logs, as for all else that a node does.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.runtime.simulated.incarnation import CURRENT

if TYPE_CHECKING:
    from moldau.runtime.simulated.simulation import Simulation

LINES_MAX: Final = 1000
_NAME: Final = "moldau.client"


class Line(NamedTuple):
    """One line of a node's log, at the node's own time."""

    wall_ms: int
    level: str
    logger: str
    text: str


class NodeLogs(logging.Handler):
    """Hand each record to the node that logged it; bugs of the world itself belong to no node."""

    def __init__(self, world: Simulation) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        incarnation = CURRENT.get()
        node = None if incarnation is None else self._world.nodes.get(incarnation.name)
        if node is not None and node.incarnation is incarnation:
            line = Line(node.clock.wall_ms(), record.levelname, record.name, record.getMessage())
            node.log.append(line)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While the world goes on."""
        logger = logging.getLogger(_NAME)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


def new_log() -> deque[Line]:
    """A node's, which keeps the latest lines."""
    return deque(maxlen=LINES_MAX)
