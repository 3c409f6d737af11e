"""The cases of all pairs that run on Spark: their ends are what the model says."""

from __future__ import annotations

import pytest

from tests.streams.pairs.suite import SUITE
from tests.testing.covering import name_of

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.soak]


def test_an_app_on_spark_comes_to_what_the_model_says() -> None:
    pytest.importorskip("pyspark", reason="a peer: make peers")
    cases = [case for case in SUITE.cases(1) if case["engine"] == "spark"]
    with SUITE.opened() as run:
        wrong = {name_of(case): run(case) for case in cases}
    assert {name: found for name, found in wrong.items() if found} == {}
