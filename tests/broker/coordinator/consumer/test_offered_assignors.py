"""Which assignors a broker offers, and which one a group uses where nobody asks for one."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.group.consumer.validation import offered_assignors
from moldau.config import BadSettings
from tests.broker.coordinator.consumer.world import World

SETTING = "group.consumer.assignors"
CLASSES = "org.apache.kafka.coordinator.group.assignor"


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ("uniform,range", ("uniform", "range")),
        ("range", ("range",)),
        (f"{CLASSES}.RangeAssignor", ("range",)),
        (f"{CLASSES}.RangeAssignor,{CLASSES}.UniformAssignor", ("range", "uniform")),
        (f"{CLASSES}.UniformAssignor,uniform", ("uniform",)),
    ],
)
def test_assignors_go_by_their_names_and_by_those_of_kafkas_classes(
    given: str, offered: tuple[str, ...]
) -> None:
    assert offered_assignors(World(named={SETTING: given}).settings) == offered


@pytest.mark.parametrize("given", ["rnage", "uniform,com.example.Mine", ""])
def test_an_assignor_that_nobody_knows_is_refused_by_name(given: str) -> None:
    with pytest.raises(BadSettings, match=rf"(?s){SETTING}.*uniform, range"):
        World(named={SETTING: given})
