"""The streaming queries of one job: send their progress, and raise what ended them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.connectors.spark.file_failures import raise_readable
from moldau.connectors.spark.messages import Message, SendMessage, progress_message


class StreamingQueries:
    """The queries that run now. Invariant: each progress is sent once, before its query's end."""

    def __init__(self, send: SendMessage) -> None:
        self._send = send
        self._queries: Sequence[Any] = ()
        self._sent_until: dict[str, str] = {}
        """By query: the timestamp of the last progress that was sent."""
        self._is_finished = False

    def watch(self, *queries: Any) -> None:
        """Poll these started queries from now on, in place of those before."""
        self._queries = queries
        self._is_finished = False

    def stop(self) -> None:
        """Stop the queries after the batch at hand. Their checkpoints stay."""
        for query in self._queries:
            query.stop()
        self._queries = ()

    def poll(self) -> None:
        """Send new progress. Raise the error that ended a query, or send `finished` once if all
        queries have ended without an error."""
        ended = [query for query in self._queries if not query.isActive]
        for query in self._queries:
            for progress in query.recentProgress:
                self._send_progress(progress)
        for query in ended:
            error = query.exception()
            if error is not None:
                raise_readable(error)
        if ended and len(ended) == len(self._queries) and not self._is_finished:
            self._is_finished = True
            self._send({"type": "finished"})

    def _send_progress(self, progress: Message) -> None:
        """Send a progress unless it was sent before: Spark keeps the last hundred."""
        name, timestamp = progress["name"], progress["timestamp"]
        if timestamp > self._sent_until.get(name, ""):
            self._sent_until[name] = timestamp
            self._send(progress_message(progress))
