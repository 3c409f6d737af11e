"""Every pair of choices meets on real clusters, with kills: the copy is what the model says.

python -m tests.broker.pairs --seed 7              all pairs
python -m tests.broker.pairs --seed 7 --strength 3 all triples
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from tests.broker.pairs.client import words_of
from tests.broker.pairs.columns import COLUMNS, IMPOSSIBLE, allowed
from tests.broker.pairs.model import ends_problems
from tests.broker.pairs.running import Scenes, run_case
from tests.suites import today
from tests.testing.covering import Case, covering, name_of, of_day

COUNT = 6
"""How many cases of a day run with the deep tests."""
ALL = covering(COLUMNS, allowed, seed=1)
_PACKAGES = {"librdkafka": "confluent_kafka", "aiokafka": "aiokafka"}


def _parameters(cases: Sequence[Case]) -> list[Any]:
    return [pytest.param(each, id=name_of(each)) for each in cases]


def test_the_columns_are_those_of_the_rules() -> None:
    for rule in IMPOSSIBLE:
        for name, choices in rule.items():
            assert set(choices) <= set(COLUMNS[name])
    assert 30 <= len(ALL) <= 66


def test_an_end_that_was_told_is_not_told_lower() -> None:
    assert ends_problems({0: 5, 1: 7}, {0: 5, 1: 9}) == []
    assert len(ends_problems({0: 5, 1: 7}, {0: 4})) == 2


@pytest.fixture(scope="module")
def scenes() -> Iterator[Scenes]:
    with ExitStack() as on_end:
        yield Scenes(on_end)


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.parametrize("case", _parameters(of_day(ALL, COUNT, today())))
def test_a_copy_is_what_the_model_says(scenes: Scenes, case: Case) -> None:
    if case["client"] in _PACKAGES:
        pytest.importorskip(_PACKAGES[case["client"]], reason="a peer: make peers")
    words_of(case["client"])
    assert run_case(scenes.of(case), case) == []


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.soak
@pytest.mark.parametrize("case", _parameters(ALL))
def test_all_pairs_meet(scenes: Scenes, case: Case) -> None:
    test_a_copy_is_what_the_model_says(scenes, case)
