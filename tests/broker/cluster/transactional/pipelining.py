"""Transactions whose batches are pipelined, with the rules of Java's producer and no linger.

Up to five batches of a partition are in flight, all partitions of a broker share a connection, and
answers are looked at late, several together. A refused batch is sent again as it was, when nothing
before it is unresolved. OUT_OF_ORDER_SEQUENCE_NUMBER is retried too, unless the batch continues
what was acknowledged: then records are missing, and Java's producer ends with a fatal error
(`TransactionManager.canRetry`). So a broker must judge the batches of a connection in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.produce import ProduceResponse
from tests.broker.cluster.transactional.instance import (
    AGAIN,
    FENCED,
    PATIENCE_S,
    Fenced,
    GivenUp,
    Instance,
)
from tests.broker.cluster.transactional.ledger import Attempt, Place, Promise
from tests.broker.simulation.promises import demand

IN_FLIGHT_MAX: Final = 5
_NONE: Final = -1


@dataclass(eq=False, slots=True)
class Batch:
    """One record on its way."""

    sequence: int
    key: str
    value: str
    is_retry: bool = False


class Pipeline:
    """The batches of one transaction to one partition, with consecutive sequences."""

    def __init__(self, instance: Instance, attempt: Attempt, place: Place, random: Random) -> None:
        self._instance = instance
        self._attempt = attempt
        self._place = place
        self._random = random
        self._producer = instance.current
        self._waiting: deque[Batch] = deque()
        self._unresolved: list[Batch] = []
        """Those that were sent and are not acknowledged, by sequence."""
        self._in_flight = 0
        self._acknowledged = _NONE
        """The last sequence that was acknowledged."""
        self._answers: deque[tuple[Batch, KafkaError | None, bool]] = deque()
        self._answered = asyncio.Event()

    async def write(self, numbers: Sequence[int]) -> None:
        """Write a record for each number, and return when all are acknowledged."""
        await self._instance.join(self._place)
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        place = self._instance.place_record
        for number in numbers:
            key, value = place(self._attempt, self._place, number)
            sequence = self._instance.next_sequence(self._place)
            self._waiting.append(Batch(sequence, key, value))
        self._acknowledged = self._waiting[0].sequence - 1
        while self._waiting or self._unresolved:
            if loop.time() > until:
                raise GivenUp("patience")
            await self._drain()
            if self._in_flight:
                await self._answered.wait()
                await asyncio.sleep(self._random.choice((0.0, 0.0, 0.03)))
            else:
                await asyncio.sleep(self._random.uniform(0.02, 0.2))
            self._take_answers()

    async def _drain(self) -> None:
        while self._waiting and self._in_flight < IN_FLIGHT_MAX:
            head = self._waiting[0]
            if head.is_retry and head is not self._unresolved[0]:
                return
            try:
                connection = await self._instance.wire.pipe(self._place)
                request = self._instance.wire.produce_request(
                    self._producer,
                    self._place,
                    head.sequence,
                    [(head.key.encode(), head.value.encode())],
                )
                connection.ask(
                    request,
                    partial(self._on_answer, head),
                    version=self._instance.wire.produce_version,
                )
            except KafkaError:
                return  # no connection: a moment later
            self._waiting.popleft()
            if not head.is_retry:
                self._unresolved.append(head)
            self._in_flight += 1

    def _on_answer(self, batch: Batch, answer: Response | KafkaError) -> None:
        error, is_told = None, True
        if isinstance(answer, KafkaError):
            error, is_told = answer, False
        else:
            assert isinstance(answer, ProduceResponse)
            (row,) = answer.responses[0].partition_responses
            if row.error_code:
                error = KafkaError(ErrorCode(row.error_code), row.error_message or "")
        self._answers.append((batch, error, is_told))
        self._answered.set()

    def _take_answers(self) -> None:
        self._answered.clear()
        while self._answers:
            batch, error, is_told = self._answers.popleft()
            self._in_flight -= 1
            if error is None or error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._acknowledged = max(self._acknowledged, batch.sequence)
                self._unresolved.remove(batch)
                self._instance.acknowledge(self._attempt, self._place, batch.key, batch.value)
                continue
            if self._instance.wire.version < 2 and not is_told:
                self._instance.needs_epoch = True  # it may still be on its way
            self._check_retriable(batch, error)
            batch.is_retry = True
            self._waiting.append(batch)
            self._waiting = deque(sorted(self._waiting, key=lambda each: each.sequence))

    def _check_retriable(self, batch: Batch, error: KafkaError) -> None:
        """Raise unless Java's producer would send the batch again."""
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            demand(
                batch.sequence != self._acknowledged + 1,
                Promise.NO_FATAL_ERROR,
                partition=self._place,
                producer=self._producer,
                sequence=batch.sequence,
                error=str(error),
            )
        elif error.code in FENCED:
            raise Fenced from error
        elif not (error.retriable or error.code in AGAIN):
            raise GivenUp(error.code.name) from error


async def write_pipelined(
    instance: Instance, attempt: Attempt, places: Sequence[Place], count: int, random: Random
) -> None:
    """Write `count` records to each partition, all partitions at once. Raise Fenced or GivenUp as
    `Instance.write`."""
    pipelines = [Pipeline(instance, attempt, place, random) for place in places]
    writing = [each.write(range(count)) for each in pipelines]
    found = await asyncio.gather(*writing, return_exceptions=True)
    failures = [each for each in found if isinstance(each, BaseException)]
    for failure in sorted(failures, key=lambda each: _ORDER.get(type(each), 0)):
        raise failure


_ORDER: Final[dict[type[BaseException], int]] = {Fenced: 1, GivenUp: 2}
"""Which of several failures counts. A broken promise is first."""
