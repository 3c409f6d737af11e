"""Every pair of choices meets in an app on a real broker: its end is what the model says.

python -m tests.streams.pairs --seed 7                 all pairs
python -m tests.streams.pairs --seed 7 --strength 3    all triples
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.broker import MoldauBroker
from tests.streams.pairs.columns import COLUMNS, IMPOSSIBLE, allowed
from tests.streams.pairs.model import lines, problems, wanted
from tests.streams.pairs.running import run_case
from tests.testing.covering import Case, covering, name_of

ALL = covering(COLUMNS, allowed, seed=1)


def test_the_columns_are_those_of_the_rules() -> None:
    for rule in IMPOSSIBLE:
        for name, choices in rule.items():
            assert set(choices) <= set(COLUMNS[name])
    assert 40 <= len(ALL) <= 90


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_the_model_is_right_with_its_own_end_and_wrong_with_another(case: Case) -> None:
    assert len(lines(case)) > 0
    end = wanted(case)
    if isinstance(end, Counter):
        assert problems(case, end, {}) == []
        assert problems(case, end - Counter(list(end)[:1]), {}) != []
        return
    assert problems(case, Counter(), end) == []
    assert problems(case, Counter(), {}) != []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauBroker]:
    with MoldauBroker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.soak
@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_all_pairs_meet(broker: MoldauBroker, tmp_path: Path, case: Case) -> None:
    assert run_case(broker, tmp_path, case) == []
