"""The slices of a scrape: it yields after a few rows, so that requests are served in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

AT_ONCE: Final = 25
"""The rows between two yields: about a quarter of a millisecond."""
_K = TypeVar("_K")
_V = TypeVar("_V")


def pairs_of_now(mapping: Mapping[_K, _V]) -> Iterator[tuple[_K, _V]]:
    """Return the pairs that it has at the call. No tuple is kept for each of them: making and
    freeing 10,000, and the garbage collections that they start, take several milliseconds."""
    return zip(list(mapping), list(mapping.values()), strict=True)
