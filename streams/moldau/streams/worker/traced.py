"""A committer with spans of what it sends, around any other."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client import Deliveries
from moldau.streams.engine.batches import Outputs
from moldau.streams.engine.spans import SendSpans
from moldau.streams.worker.committed import Committed
from moldau.streams.worker.committer import Committer, TopicPartition


class TracedCommitter:
    """Changes of stores have no spans: no reader follows them but a restore."""

    def __init__(self, committer: Committer, spans: SendSpans) -> None:
        self._committer = committer
        self._spans = spans
        self.is_atomic = committer.is_atomic
        self.start = committer.start
        self.find = committer.find
        self.keep = committer.keep
        self.log = committer.log
        self.commit = committer.commit

    async def aclose(self) -> None:
        """Disconnect. What is not acknowledged is not known to be there."""
        try:
            await self._committer.aclose()
        finally:
            self._spans.end("the worker ended")

    async def send(self, outputs: Outputs) -> None:
        """Send the outputs, each record of a trace with a span."""
        self._spans.begin(outputs)
        await self._committer.send(outputs)

    async def written(
        self,
        logged: Mapping[TopicPartition, Deliveries],
        offsets: Mapping[TopicPartition, Committed],
    ) -> dict[TopicPartition, int]:
        """Wait until all that was sent is acknowledged; its spans end with that."""
        is_written = False
        try:
            ends = await self._committer.written(logged, offsets)
            is_written = True
        finally:
            self._spans.end(None if is_written else "the outputs are not acknowledged")
        return ends

    async def revert(self) -> None:
        """Undo what was sent since the last commit."""
        await self._committer.revert()
        self._spans.end("the transaction was aborted")
