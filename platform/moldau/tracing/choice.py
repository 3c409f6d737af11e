"""Which records of a batch have spans: those of recorded traces, found without a draw for each."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.tracing.context import Headers, SpanContext, read_context
from moldau.tracing.sampling import Sampler

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
