"""Groups, transactions and share groups of three nodes answer as Kafka's do."""

from __future__ import annotations

from typing import Final

import pytest

from tests.differential import kept
from tests.differential.comparison import differences, not_the_same_cases
from tests.differential.explained import explanation
from tests.differential.scenarios import scenarios
from tests.differential.three_nodes import OF_THREE, talk_to_three

FIRST: Final = ("transactions", "transactions_by_id", "share_groups")
DEEP: Final = (
    "coordinators", "group_consumers", "group_expiry", "group_members", "group_patterns",
    "group_statics", "share_letters", "share_states", "streams_groups", "transactions_by_id",
)  # fmt: skip
OF_ONE: Final = {
    "group_downgrades": "starts its broker again",
    "group_offsets": "starts its broker again",
}


def test_each_scenario_of_groups_is_here() -> None:
    kinds = ("group_", "share_", "streams_", "coordinators", "transactions")
    found = {each for each in scenarios() if each.startswith(kinds)}
    assert found == {*FIRST, *DEEP, *OF_ONE}


@pytest.mark.parametrize(
    "name", [*FIRST, *(pytest.param(each, marks=pytest.mark.deep) for each in DEEP)]
)
def test_three_nodes_answer_as_kafka_does(name: str) -> None:
    described = scenarios()[name]
    ours = talk_to_three(described.play, described.settings).entries
    theirs = kept.read(name)
    assert not not_the_same_cases(theirs, ours)
    unexplained = [
        str(each)
        for each in differences(name, theirs, ours)
        if explanation(each) is None and not any(row.covers(each) for row in OF_THREE)
    ]
    assert not unexplained, "\n".join(unexplained)
