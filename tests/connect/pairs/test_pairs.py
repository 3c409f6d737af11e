"""Every pair of choices meets in a chain of connectors: the sink has what the model says.

python -m tests.connect.pairs --seed 7                 all pairs
python -m tests.connect.pairs --seed 7 --strength 3    all triples
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.connect.pairs.columns import COLUMNS, IMPOSSIBLE
from tests.connect.pairs.model import expected, problems, rows
from tests.connect.pairs.suite import SUITE
from tests.suites import today
from tests.testing.covering import Case, name_of, of_day
from tests.testing.planting import Run

COUNT = 6
"""How many cases of a day run with the deep tests."""
PARTS = 10
"""Parts of all cases."""
OF_THE_DAY = of_day(list(SUITE.cases(1)), COUNT, today())


def test_the_columns_are_those_of_the_rules() -> None:
    for rule in IMPOSSIBLE:
        for name, choices in rule.items():
            assert set(choices) <= set(COLUMNS[name])


@pytest.mark.parametrize("case", list(islice(SUITE.cases(1), 20)), ids=name_of)
def test_the_model_is_right_with_its_own_end_and_wrong_with_another(case: Case) -> None:
    end = [expected(case, each) for each in rows(case)]
    assert problems(case, end) == []
    assert problems(case, end[1:]) != []
    assert problems(case, [*end, ("0", "-", "-", "-", "-")]) != []


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with SUITE.opened() as opened:
        yield opened


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.parametrize("case", OF_THE_DAY, ids=name_of)
def test_a_chain_brings_what_the_model_says(run: Run, case: Case) -> None:
    assert run(case) == []


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_all_pairs_meet(run: Run, part: int) -> None:
    wrong = {name_of(case): run(case) for case in list(SUITE.cases(1))[part::PARTS]}
    assert {name: found for name, found in wrong.items() if found} == {}
