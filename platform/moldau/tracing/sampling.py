"""Which traces are recorded, and so which records of a batch have spans: those of
OTEL_TRACES_SAMPLER, by a ratio of the trace's own id.

A context that comes with a record decides for it, unless the sampler is not based on parents. For
records without one the sampler is asked how many to pass over: a draw for each record would cost
more than the records that are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Final

from moldau.tracing.context import Headers, SpanContext, read_context

if TYPE_CHECKING:
    from random import Random

NEVER: Final = 1 << 62
"""As many records are passed over if none is recorded."""
_IDS: Final = 1 << 64


class Sampler:
    """Decides by the ratio of traces to record, from 0 to 1."""

    def __init__(self, random: Random, ratio: float = 1.0, *, is_parent_based: bool = True) -> None:
        assert 0.0 <= ratio <= 1.0
        self.ratio = ratio
        self.is_parent_based = is_parent_based
        self._bound = round(ratio * _IDS)
        self._random = random

    def takes(self, parent: SpanContext) -> bool:
        """Whether a span with this parent is recorded."""
        if self.is_parent_based:
            return parent.is_sampled
        return int.from_bytes(parent.trace_id[8:]) < self._bound

    def gap(self) -> int:
        """Return how many records without a context to pass over before the next recorded one."""
        if self.ratio >= 1.0:
            return 0
        if self._bound == 0:
            return NEVER
        drawn = 1.0 - self._random.random()  # never 0
        return min(NEVER, int(log(drawn) / log(1.0 - self.ratio)))

    def new_trace_id(self) -> bytes:
        """Return the id of a recorded trace: other samplers of this ratio or a higher one record it
        too."""
        high = self._random.getrandbits(64) or 1
        low = self._random.randrange(max(1, self._bound))
        return high.to_bytes(8) + low.to_bytes(8)

    def new_span_id(self) -> bytes:
        """Return the id of a span."""
        return (self._random.getrandbits(64) or 1).to_bytes(8)


NO_HEADERS: Headers = ()


class Choice:
    """Goes over the records of one reader or writer, batch by batch."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        # How many records without a context to pass over before the next recorded one.
        self._gap = sampler.gap()

    def next(self, headers: Sequence[Headers] | None, start: int, stop: int) -> int:
        """Return the index of the next recorded record; `stop` if there is none. Ask again from an
        index that was returned, or `take` it: records are counted once. `headers` is None if no
        record has any."""
        if headers is None:
            passed = min(self._gap, stop - start)
            self._gap -= passed
            return start + passed
        for index in range(start, stop):
            own = headers[index]
            parent = read_context(own) if own else None
            if parent is not None:
                if self._sampler.takes(parent):
                    return index
            elif self._gap:
                self._gap -= 1
            else:
                return index
        return stop

    def take(self, headers: Headers) -> SpanContext | None:
        """Take the record at the index returned. Return the parent of its span; None begins a
        trace."""
        parent = read_context(headers)
        if parent is None:
            self._gap = self._sampler.gap()
        return parent
