"""Holding a piece of work to a budget of memory."""

from __future__ import annotations

import os
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Bytes:
    """That Python allocated for a piece of work."""

    held: int
    most: int


def peak_stays_below(limit: int, work: Callable[[], object]) -> None:
    """Of what Python allocates for the work."""
    assert _measure(work).most < limit


def rest_stays_below(limit: int, work: Callable[[], object]) -> None:
    """The same for what is left of it, with what it returns."""
    assert _measure(work).held < limit


def refusal_stays_below(
    limit: int, error: type[Exception], match: str, work: Callable[[], object]
) -> None:
    """The work raises the error and allocates less."""

    def refused() -> None:
        with pytest.raises(error, match=match):
            work()

    peak_stays_below(limit, refused)


def peak(work: Callable[[], object]) -> int:
    """Return how many bytes Python allocates at most for a piece of work."""
    return _measure(work).most


def _measure(work: Callable[[], object]) -> Bytes:
    """Do the work in a fork of this process: of its threads only the calling one goes on there, so
    that nothing else allocates. What the work changes is gone afterwards."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _measure_and_exit(writer, work)
    os.close(writer)
    with open(reader, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    held, _, most = said.partition(" ")
    assert held.isdecimal(), said
    return Bytes(int(held), int(most))


def _measure_and_exit(writer: int, work: Callable[[], object]) -> None:
    try:
        tracemalloc.start()
        kept = work()
        held, most = tracemalloc.get_traced_memory()
        os.write(writer, f"{held} {most}".encode())
        del kept
    except BaseException as error:
        os.write(writer, f"{type(error).__name__}: {error}"[:4000].encode())
    finally:
        os._exit(0)
