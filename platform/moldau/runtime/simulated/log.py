"""The log lines of a simulated node's code, kept with the node.

Libraries use the standard library's loggers, which are global to the process: all nodes would log
to one place, with the machine's time. The context tells which node logs, as for a node's other
actions.
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
    """Passes each record to the node that logged it; bugs of the world itself belong to no node."""

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
        """Handle records during the block, while the world runs."""
        logger = logging.getLogger(_NAME)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


def new_log() -> deque[Line]:
    """Return the log of a node, which keeps the latest lines."""
    return deque(maxlen=LINES_MAX)
