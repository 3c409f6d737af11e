"""What a `send_many` has handed over so far. No IO.

Records that have keys, or partitions of their own, go partition by partition, so that one call of
the kernel fills a batch. Where that ends in the middle, those that are on their way are not the
first ones as the user has them: he wants to know which are left, to send them and no other again.

Invariant: records are handed over in the order of `take_turns`, where there is one, else in theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import chain
from typing import Final

from moldau.client.producer.batch import Batch
from moldau.errors import MoldauError
from moldau.records import Row

_SHOWN: Final = 5

Parts = list[tuple[Batch, int, int]]
"""A batch, the index of the first of these records in it, how many of them."""


class Indices(tuple[int, ...]):
    """Places in a list that may be long; in a message there are the first of them."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:_SHOWN]))
        return f"[{shown}, and {len(self) - _SHOWN} more]" if len(self) > _SHOWN else f"[{shown}]"


class HandedOver:
    """Of so many records."""

    def __init__(self, count: int) -> None:
        self.parts: Parts = []
        self._count = count
        self._records: Sequence[Row] = ()
        self._turns: list[Sequence[Row]] = []

    def take_turns(self, records: Sequence[Row], turns: Iterable[Sequence[Row]]) -> None:
        """Of `records`, which are all that there are, these come next."""
        self._records = records
        self._turns.extend(turns)

    @property
    def accepted(self) -> int:
        """How many are on their way."""
        return sum(part[2] for part in self.parts)

    def left(self) -> Indices:
        """Which are not on their way."""
        return Indices(sorted(self._left_in_turn()))

    def facts(self) -> dict[str, object]:
        """For an error that ends it here: how many are on their way, at which it ended, and which
        are left."""
        facts: dict[str, object] = {"accepted": self.accepted, "records": self._count}
        left = self._left_in_turn()
        return {**facts, "at": left[0], "left": Indices(sorted(left))} if left else facts

    @contextmanager
    def told_in_errors(self) -> Iterator[None]:
        """An error that ends the block says how many records are on their way all the same."""
        try:
            yield
        except MoldauError as error:
            found = copy(error)
            found.context = {**error.context, **self.facts()}
            raise found from error.__cause__ or error
        except TypeError as error:
            error.add_note(f"{self.accepted} of these records are on their way, not {self.left()}")
            raise

    def _left_in_turn(self) -> list[int]:
        return self._in_turn()[self.accepted :]

    def _in_turn(self) -> list[int]:
        """All, in the order in which they go, as far as that is known."""
        if not self._turns:
            return list(range(self._count))
        places = {id(each): index for index, each in enumerate(self._records)}
        known = [places[id(each)] for each in chain.from_iterable(self._turns)]
        return known + sorted(set(range(self._count)).difference(known))
