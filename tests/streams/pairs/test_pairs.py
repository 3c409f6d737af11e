"""Every pair of choices meets in an app on a real broker: its ends are what the model says.

python -m tests.streams.pairs --seed 7                 all pairs
python -m tests.streams.pairs --seed 7 --strength 3    all triples
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from tests.streams.pairs.columns import APART, COLUMNS, IMPOSSIBLE
from tests.streams.pairs.model import End, ends
from tests.streams.pairs.suite import SUITE
from tests.suites import today
from tests.testing.covering import Case, name_of, of_day
from tests.testing.planting import Run

COUNT = 8
"""How many cases of a day run with the deep tests."""
PARTS = 10
"""Parts of all cases."""
EMBEDDED = [case for case in SUITE.cases(1) if case["engine"] == "embedded"]
OF_THE_DAY = of_day(EMBEDDED, COUNT, today())


def test_the_columns_are_those_of_the_rules() -> None:
    for rule in IMPOSSIBLE:
        for name, choices in rule.items():
            assert set(choices) <= set(COLUMNS[name])
    assert {name for each in APART for name in each} <= set(COLUMNS)


@pytest.mark.parametrize("case", list(islice(SUITE.cases(1), 20)), ids=name_of)
def test_the_model_is_right_with_its_own_end_and_wrong_with_another(case: Case) -> None:
    for end in ends(case).values():
        assert _problems(end, end) == []
        if end.values:
            assert _problems(end, End(end.values - Counter(list(end.values)[:1]))) != []
        if end.last:
            assert _problems(end, End(last=dict(list(end.last.items())[1:]))) != []


def _problems(end: End, found: End) -> list[str]:
    values, last = found.values or Counter[str](), dict(found.last or {})
    return end.problems(values, last, keys=len(last), may_double=False)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with SUITE.opened() as opened:
        yield opened


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.parametrize("case", OF_THE_DAY, ids=name_of)
def test_an_app_comes_to_what_the_model_says(run: Run, case: Case) -> None:
    assert run(case) == []


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_all_pairs_meet(run: Run, part: int) -> None:
    wrong = {name_of(case): run(case) for case in EMBEDDED[part::PARTS]}
    assert {name: found for name, found in wrong.items() if found} == {}
