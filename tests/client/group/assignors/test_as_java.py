"""For the same members Java's assignors and ours write the same bytes and give the same shares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.client.group.assignors.cases import GOLDEN, GOLDEN_SEEDS, Case, plain, story
from tests.peers.apache_kafka import fetch_or_skip

SEEDS = range(400)
JAVA = Path(__file__).with_name("Assignors.java")


def _cases() -> list[Case]:
    return [case for seed in SEEDS for case in story(seed)]


def test_golden_answers_of_java() -> None:
    """`python -m tests.client.group.assignors.renew` asked Java for them."""
    lines = GOLDEN.read_text(encoding="ascii").splitlines()
    assert len(lines) > 50
    by_case = {case.to_json(): case for seed in GOLDEN_SEEDS for case in story(seed)}
    for line in lines:
        told = json.loads(line)
        case = by_case[json.dumps(told["case"])]
        assert case.ours() == plain(told["answer"]), line


@pytest.mark.real
def test_java_shares_as_we_do() -> None:
    kafka = fetch_or_skip()
    cases = _cases()
    answers = kafka.run_source(JAVA, [case.to_json() for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        assert case.ours() == plain(json.loads(answer)), case.to_json()
