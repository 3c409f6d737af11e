"""Producer ids, from blocks that the controller allocates (KIP-730).

Invariants: an id is given out once. Only one block is requested at a time. The next block is
requested while a tenth of this one is left, so normally no request waits. If no id is left, a
request waits for the next block. If that fails, it gets COORDINATOR_LOAD_IN_PROGRESS, which clients
retry.

The rest of a block is lost when the process ends. With 63 bits there are enough ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from moldau.broker.decision.context import of_node
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node

OnId: TypeAlias = Callable[[int | KafkaError], None]

_VERSION = 0
_PREFETCH_AT = 10
"""The next block is requested when one id in this many is left."""


class ProducerIdBlocks:
    """The current block, and the next one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._ids = range(0)
        self._following = range(0)
        self._prefetch_below = 0
        self._is_asking = False
        self._waiting: deque[OnId] = deque()
        self._spare: list[int] = []
        """Ids that were taken for `take_now`."""

    def take(self, on_id: OnId) -> None:
        """Call `on_id` with a new id, at once if one is available."""
        if self._waiting or not self._has_any():
            self._waiting.append(on_id)
        else:
            on_id(self._next())
        if len(self._ids) <= self._prefetch_below and not self._following and not self._is_asking:
            self._ask()

    def ensure(self, on_ready: Callable[[KafkaError | None], None]) -> None:
        """Call `on_ready` when `take_now` has an id, at once if it has one already."""
        has_any = self._has_any()
        if self._spare or (not self._waiting and has_any):
            on_ready(None)
            return

        def on_id(found: int | KafkaError) -> None:
            if isinstance(found, KafkaError):
                on_ready(found)
                return
            self._spare.append(found)
            on_ready(None)

        self.take(on_id)

    def take_now(self) -> int:
        """Return a new id. Raise COORDINATOR_LOAD_IN_PROGRESS, and request the next block, if none
        is available."""
        has_any = self._has_any()
        if self._spare:
            return self._spare.pop()
        found: list[int] = []
        if not self._waiting and has_any:
            self.take(lambda each: found.append(each) if isinstance(each, int) else None)
            return found[0]
        if not (self._waiting or self._following or self._is_asking):
            self._ask()
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is available yet")

    def _has_any(self) -> bool:
        self._drop_restored()
        if not self._ids:
            self._ids, self._following = self._following, range(0)
            self._prefetch_below = len(self._ids) // _PREFETCH_AT
        return bool(self._ids)

    def _drop_restored(self) -> None:
        """Drop ids that a restore has brought into logs."""
        end = self._node.image.producer_ids.restored_end
        self._ids = self._ids[max(0, end - self._ids.start) :]
        self._following = self._following[max(0, end - self._following.start) :]
        if self._spare and min(self._spare) < end:
            self._spare = [each for each in self._spare if each >= end]

    def _next(self) -> int:
        first = self._ids[0]
        self._ids = self._ids[1:]
        return first

    def _ask(self) -> None:
        self._is_asking = True
        node = self._node
        request = AllocateProducerIdsRequest(broker_id=node.node_id, broker_epoch=node.broker_epoch)
        node.controller.submit(request, of_node(node.node_id, _VERSION), self._on_answer)

    def _on_answer(self, answer: Response | KafkaError) -> None:
        self._is_asking = False
        try:
            self._following = _block_of(answer)
        except KafkaError as error:
            self._refuse_waiting(error)
            return
        while self._waiting and self._has_any():
            self._waiting.popleft()(self._next())
        if self._waiting:
            self._ask()

    def _refuse_waiting(self, error: KafkaError) -> None:
        self._node.log.warn("got no producer ids", error=error.code.name, reason=error.reason)
        waiting, self._waiting = self._waiting, deque()
        refusal = KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the controller gave no producer ids"
        )
        for on_id in waiting:
            on_id(refusal)


def _block_of(answer: Response | KafkaError) -> range:
    if isinstance(answer, KafkaError):
        raise answer
    assert isinstance(answer, AllocateProducerIdsResponse)
    if answer.error_code:
        raise KafkaError(answer.error_code)
    return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
