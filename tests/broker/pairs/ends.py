"""The ends of partitions, asked for again and again while nodes die and come back.

A new leader knows too low an end for its first moments alone, a tenth of a second: one question
after all nodes are up comes too late.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from moldau.client import TopicPartition
from moldau.client.sync import Consumer
from tests.broker.pairs.model import Ends, ends_problems

_QUICKLY: Final = {
    "retry.backoff.ms": "5",
    "retry.backoff.max.ms": "10",
    "reconnect.backoff.ms": "5",
    "reconnect.backoff.max.ms": "10",
}


class EndsWatch:
    """A thread that asks while the block runs, from what it was told first. Its client knows the
    nodes before they die, so it asks a leader as soon as that one answers."""

    def __init__(self, settings: Mapping[str, str], where: Sequence[TopicPartition]) -> None:
        self._settings = {**settings, **_QUICKLY}
        self._where = where
        self._is_ending = threading.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ends", daemon=True)
        self._error: BaseException | None = None
        self._first: Ends = {}
        self.problems: list[str] = []
        """What is wrong with the ends; each once."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._has_begun.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """It asks once more after the block."""
        self._is_ending.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        try:
            with Consumer(self._settings) as consumer:
                self._first = self._ends(consumer)
                self._has_begun.set()
                is_last = False
                while not is_last:
                    is_last = self._is_ending.is_set()
                    found = ends_problems(self._first, self._ends(consumer))
                    self.problems += [each for each in found if each not in self.problems]
        except BaseException as error:
            self._error = error
        finally:
            self._has_begun.set()

    def _ends(self, consumer: Consumer) -> Ends:
        return {each.partition: end for each, end in consumer.end_offsets(self._where).items()}
