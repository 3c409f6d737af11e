"""The corpus through every target, with time and memory held against their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import corpus
from tests.fuzz.mutation import mutants
from tests.fuzz.target import Target, feed, watch_memory
from tests.fuzz.targets import TARGETS

MUTANTS = 1500
CORPUS_BYTES_MAX = 300_000

each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())


@pytest.fixture
def memory_is_watched() -> Iterator[None]:
    with watch_memory():
        yield


@each_target
@pytest.mark.usefixtures("memory_is_watched")
def test_every_kept_input_is_answered_or_refused_within_bounds(target: Target) -> None:
    inputs = corpus.load(target.name)
    accepted = sum(feed(target, data) for _, data in inputs)

    assert 0 < accepted < len(inputs), "a corpus holds both what is right and what is wrong"


@each_target
def test_mutants_of_the_corpus_are_answered_or_refused(target: Target) -> None:
    inputs = [data for _, data in corpus.load(target.name)]
    series = mutants(inputs, Random(f"moldau {target.name}"))
    for _ in range(MUTANTS):
        data = next(series)
        try:
            feed(target, data)
        except Exception as error:
            error.add_note(f"{target.name} on {data!r}")
            raise


@each_target
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=200))
def test_any_bytes_are_answered_or_refused(target: Target, data: bytes) -> None:
    feed(target, data)


@each_target
@pytest.mark.usefixtures("memory_is_watched")
def test_every_input_may_end_anywhere(target: Target) -> None:
    """A sample of the corpus, cut at each byte."""
    for _, data in Random(target.name).sample(corpus.load(target.name), 10):
        for end in range(min(len(data), 200)):
            feed(target, data[:end])


@each_target
def test_the_seeds_in_the_corpus_are_those_that_the_target_makes(target: Target) -> None:
    """`python -m tests.fuzz --renew` after a change of what seeds are made of."""
    kept = {data for label, data in corpus.load(target.name) if not label.startswith(corpus.CRASH)}
    found = {data for label, data in corpus.load(target.name) if label.startswith(corpus.CRASH)}

    assert kept == {data for _, data in target.seeds()} - found


def test_the_corpus_stays_small_and_belongs_to_targets() -> None:
    files = list(corpus.FOLDER.iterdir())

    assert {path.name for path in files} == {f"{name}.txt" for name in TARGETS}
    assert sum(path.stat().st_size for path in files) <= CORPUS_BYTES_MAX
