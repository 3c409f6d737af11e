"""Expressions: RE2's rules, whole names, bounded slices."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.group.consumer import regex as module
from moldau.broker.coordinator.group.consumer.regex import RegexSearch, ResolvedRegex, check_regex
from moldau.errors.codes import ErrorCode, KafkaError


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        "a(?=b)",
        "(?!a)",
        r"(a)\1",
        "a{1001}",
        "[b-a]",
        "*",
        "(?P<n",
        "x" * 9000,
        "((a{100}){100}){100}",
    ],
)
def test_what_re2_does_not_take_is_refused(regex: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    "regex", ["", "a.*", r"\pL+", r"\Qa.b\E", "(?i)abc", "[[:alpha:]]+", "a|b"]
)
def test_what_re2_takes_is_fine(regex: str) -> None:
    check_regex(regex)


def found(search: RegexSearch) -> tuple[int, dict[str, ResolvedRegex]]:
    slices = 1
    while (result := search.advance()) is None:
        slices += 1
    return slices, dict(result)


def test_the_whole_name_must_match() -> None:
    topics = ["a", "ab", "b.a", "a-1"]
    _, result = found(RegexSearch(["a", "a.*", ".*a", "x"], topics, 7, 1234))
    assert {name: set(each.topics) for name, each in result.items()} == {
        "a": {"a"},
        "a.*": {"a", "ab", "a-1"},
        ".*a": {"a", "b.a"},
        "x": set(),
    }
    assert {(each.version, each.timestamp_ms) for each in result.values()} == {(7, 1234)}


def test_a_search_takes_as_many_slices_as_it_needs() -> None:
    topics = [f"t{number}" for number in range(module.SLICE_MATCHES)]
    slices, result = found(RegexSearch(["t1.*", ".*"], topics, 1, 1))
    assert slices == 3
    assert len(result[".*"].topics) == len(topics)


def test_an_expression_from_the_log_that_cannot_be_read_matches_nothing() -> None:
    _, result = found(RegexSearch(["(", "a"], ["a", "("], 1, 1))
    assert result["("].topics == frozenset()
    assert result["a"].topics == {"a"}


def test_an_evil_expression_takes_no_time() -> None:
    names = ["a" * 249] * 50
    _, result = found(RegexSearch(["(a+)+b", "(a|aa)*c", "(.*)*d"], names, 1, 1))
    assert not any(each.topics for each in result.values())
