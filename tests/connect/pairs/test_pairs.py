"""Every pair of choices meets in a chain of connectors: the sink has what the model says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.broker import MoldauBroker
from tests.connect.pairs.columns import COLUMNS, IMPOSSIBLE, allowed
from tests.connect.pairs.model import expected, problems, rows
from tests.connect.pairs.running import run_case
from tests.databases import postgresql_server
from tests.databases.fixtures import made
from tests.registry.served import process
from tests.testing.covering import Case, covering, name_of

__all__ = ["postgresql_server"]

ALL = covering(COLUMNS, allowed, seed=1)


def test_the_columns_are_those_of_the_rules() -> None:
    for rule in IMPOSSIBLE:
        for name, choices in rule.items():
            assert set(choices) <= set(COLUMNS[name])
    assert 20 <= len(ALL) <= 60


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_the_model_is_right_with_its_own_end_and_wrong_with_another(case: Case) -> None:
    end = [expected(case, each) for each in rows()]
    assert problems(case, end) == []
    assert problems(case, end[1:]) != []
    assert problems(case, [*end, ("0", "-", "-", "-")]) != []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauBroker]:
    with MoldauBroker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def registry(broker: MoldauBroker) -> Iterator[str]:
    with process(broker.bootstrap_servers) as (_, url):
        yield url


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.soak
@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_all_pairs_meet(
    broker: MoldauBroker,
    registry: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    case: Case,
) -> None:
    origins = made(case["database"], request, tmp_path)
    targets = made(case["database"], request, tmp_path)
    databases = next(origins), next(targets)
    try:
        assert run_case(broker, registry, tmp_path, databases, case) == []
    finally:
        for each in (*origins, *targets):
            raise AssertionError(f"a second database: {each}")
