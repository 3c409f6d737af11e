"""Batches of many values, and a log that may refuse their size."""

from __future__ import annotations

from typing import Any

from moldau.client.producer.batch import Batch
from moldau.client.producer.run import RowRun
from moldau.errors.codes import ErrorCode
from tests.client.producer.simulated_sender import T0, Sender
from tests.client.scripted import Log


def begin(sender: Sender, values: list[bytes]) -> Batch:
    """One batch of these values, complete."""
    queue = sender.accumulator.queue(T0)
    rows = [(number, b"k", value, (("h", b"1"),)) for number, value in enumerate(values)]
    extended = sender.accumulator.extend(queue, sender.now, RowRun(rows), 0)
    assert extended is not None
    assert extended[2] == len(values), "they fit a batch"
    sender.accumulator.seal(queue)
    return extended[0]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


def wide(**changed: Any) -> Sender:
    return Sender(**{"batch_bytes": 1000, "request_bytes": 5000, "memory_bytes": 20_000, **changed})


def run_against(sender: Sender, log: Log) -> None:
    """Until all is decided."""
    while sender.accumulator.unfinished():
        drained = sender.drain(sender.now + 10.0)
        for batch in [each for request in drained.requests for each in request.batches]:
            assert batch.data is not None
            code, offset = log.append(bytes(batch.data))
            if code:
                sender.refuse(batch, ErrorCode(code))
            else:
                sender.acknowledge(batch, offset)
