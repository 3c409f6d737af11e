"""Streaming queries of one job, looked at from time to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.connectors.spark.messages import Message, progress_of

Tell = Callable[[Message], None]


class Queries:
    """The queries that run. Invariant: each progress is told once, before the end of its query."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._queries: Sequence[Any] = ()
        self._told: dict[str, str] = {}
        self._is_finished = False

    def watch(self, *queries: Any) -> None:
        """These have been started."""
        self._queries = queries
        self._is_finished = False

    def halt(self) -> None:
        """Stops them after the batch at hand; their checkpoints stay."""
        for query in self._queries:
            query.stop()
        self._queries = ()

    def look(self) -> None:
        """Tells what is new of them; raises what ended one."""
        ended = [query for query in self._queries if not query.isActive]
        for query in self._queries:
            for progress in query.recentProgress:
                self._tell_progress(progress)
        for query in ended:
            error = query.exception()
            if error is not None:
                raise error
        if ended and len(ended) == len(self._queries) and not self._is_finished:
            self._is_finished = True
            self._tell({"type": "finished"})

    def _tell_progress(self, progress: Message) -> None:
        """Spark keeps the last hundred: those that were told are passed over."""
        name, at = progress["name"], progress["timestamp"]
        if at > self._told.get(name, ""):
            self._told[name] = at
            self._tell(progress_of(progress))
