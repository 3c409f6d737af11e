"""Every answer and every file of ours is Kafka's, but for what is explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from moldau.broker.api.service import served_versions
from moldau.protocol.messages import API
from tests.differential import kept
from tests.differential.comparison import (
    WAITED,
    Difference,
    OnPurpose,
    differences,
    not_the_same_cases,
)
from tests.differential.explained import ON_PURPOSE, explanation
from tests.differential.peers import talk_to_ours
from tests.differential.replay import recordings, replay
from tests.differential.scenarios import scenarios

_NAMES = sorted(scenarios())


@cache
def found(name: str, arena: str = "simulated") -> tuple[Difference, ...]:
    """What differs in a scenario."""
    described = scenarios()[name]
    ours = talk_to_ours(described.play, described.settings, arena).entries
    theirs = kept.read(name)
    others = not_the_same_cases(theirs, ours)
    assert not others, f"Kafka was not asked this yet, run `make differential`: {others}"
    return tuple(differences(name, theirs, ours))


@cache
def found_in_recording(name: str) -> tuple[Difference, ...]:
    """What differs when a client's requests are repeated."""
    both = replay(name)
    return tuple(differences(f"recorded_{name}", both.kafka, both.ours))


@pytest.mark.parametrize("name", recordings())
def test_what_clients_asked_is_answered_as_kafka_did(name: str) -> None:
    differing = found_in_recording(name)
    unexplained = [str(each) for each in differing if explanation(each) is None]
    assert not unexplained, "\n".join(unexplained)


@pytest.mark.parametrize("name", _NAMES)
def test_our_answers_are_kafkas(name: str) -> None:
    unexplained = [str(each) for each in found(name) if explanation(each) is None]
    assert not unexplained, "\n".join(unexplained)


def test_every_explanation_is_needed() -> None:
    """A row that explains nothing any more, nor in one of its cases, hides the next bug."""
    differing = [each for name in _NAMES for each in found(name)]
    differing += [each for name in recordings() for each in found_in_recording(name)]
    explained: dict[int, list[Difference]] = {id(row): [] for row in ON_PURPOSE}
    for each in differing:
        if (row := explanation(each)) is not None:
            explained[id(row)].append(each)
    assert not [
        f"{row.what} ({narrow.cases}, {narrow.paths})"
        for row in ON_PURPOSE
        for narrow in _by_case_and_path(row)
        if not any(map(narrow.covers, explained[id(row)]))
    ]


def _by_case_and_path(row: OnPurpose) -> Iterator[OnPurpose]:
    """The row, cut down to each of its cases, and to each of its paths."""
    yield from (replace(row, cases=(each,)) for each in row.cases)
    yield from (replace(row, paths=(each,)) for each in row.paths)


@pytest.mark.parametrize("name", ["fetch", "files_appended", "files_rolled", "frames", "produce"])
def test_they_are_on_real_sockets_and_files_too(name: str) -> None:
    """Whether a fetch waits is left to the simulator, which nobody disturbs."""
    differing = [each for each in found(name, "asyncio") if each.path != WAITED]
    unexplained = [str(each) for each in differing if explanation(each) is None]
    assert not unexplained, "\n".join(unexplained)


def test_every_version_of_every_api_that_is_served_is_compared() -> None:
    asked = {(each.api, each.version) for name in _NAMES for each in kept.read(name)}
    served = {
        (API[key].name, version)
        for key, versions in served_versions().items()
        if key in API
        for version in range(versions.first, versions.last + 1)
    }
    assert not sorted(served - asked), "a scenario is missing: see tests/differential/README.md"


def test_what_is_kept_has_its_scenario() -> None:
    assert kept.scenarios_kept() == set(_NAMES)


def test_the_kept_answers_are_many() -> None:
    """Should a scenario lose its cases by mistake, it is noticed here."""
    assert sum(len(kept.read(name)) for name in _NAMES) > 1900
    assert sum(len(replay(name).ours) for name in recordings()) > 150
