"""The comparison itself finds what was planted, and passes over what is explained only."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.messages.produce import ProduceResponse, TopicProduceResponse
from tests.differential import kept
from tests.differential.comparison import (
    ABSENT,
    ANY,
    ORDER,
    OUTCOME,
    WAITED,
    OnPurpose,
    differences,
    not_the_same_cases,
)
from tests.differential.plain import WORDS, Symbols, batches, plain, worded
from tests.differential.requests import THEN, batch
from tests.differential.talk import CLOSED, Entry

NOW = 1_900_000_000_000


def entry(outcome: Any, label: str = "case", version: int = 1, waited: bool | None = None) -> Entry:
    return Entry(label, "Fetch", version, 7, outcome, waited)


def found(kafka: Any, ours: Any) -> list[tuple[str, Any, Any]]:
    pairs = differences("s", [entry(kafka)], [entry(ours)])
    return [(each.path, each.kafka, each.ours) for each in pairs]


def rows(*pairs: tuple[str, int]) -> dict[str, Any]:
    return {"topics": [{"name": name, "error_code": code} for name, code in pairs]}


@pytest.mark.parametrize(
    ("kafka", "ours", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": None}, {"a": ""}, [("a", None, "")]),
        ({"a": 1}, {}, [("a", 1, ABSENT)]),
        ({}, {"a": 1}, [("a", ABSENT, 1)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a", [1, 2], [1, 3])]),
        ({"a": [1, 2]}, {"a": [2, 1]}, [(f"a.{ORDER}", [1, 2], [2, 1])]),
        (rows(("t", 0)), rows(("t", 3)), [("topics.error_code", 0, 3)]),
        (
            rows(("t", 0), ("u", 0)),
            rows(("u", 0), ("t", 0)),
            [(f"topics.{ORDER}", ["name=t", "name=u"], ["name=u", "name=t"])],
        ),
        (
            rows(("t", 0)),
            rows(("t", 0), ("t", 0)),
            [("topics", ABSENT, {"name": "t", "error_code": 0})],
        ),
        (rows(("t", 0)), CLOSED, [(OUTCOME, rows(("t", 0)), CLOSED)]),
    ],
)
def test_each_difference_is_found(kafka: Any, ours: Any, expected: list[Any]) -> None:
    assert found(kafka, ours) == expected


def test_whether_it_waited_is_compared() -> None:
    (one,) = differences("s", [entry({}, waited=True)], [entry({}, waited=False)])

    assert (one.path, one.kafka, one.ours) == (WAITED, True, False)


def test_other_cases_are_told_by_their_labels() -> None:
    kafka = [entry({}, "a"), entry({}, "b"), entry({}, "c", 1)]
    ours = [entry({}, "a"), Entry("b", "Fetch", 1, 8, {}), entry({}, "c", 2)]

    assert not_the_same_cases(kafka, kafka) == []
    assert not_the_same_cases(kafka, ours) == ["b", "c"]


CODES = ("*.error_code",)


@pytest.mark.parametrize(
    ("row", "covered"),
    [
        (OnPurpose("", "", "", ("s/case",), CODES, ours=3), True),
        (OnPurpose("", "", "", ("s/*",), CODES, kafka=0, ours=3), True),
        (OnPurpose("", "", "", ("s/*",), ("topics[name=t].error_code",), ours=3), True),
        (OnPurpose("", "", "", ("s/*",), CODES, ours=lambda each: each.ours > each.kafka), True),
        (OnPurpose("", "", "", ("s/*",), CODES, kafka=lambda each: each.kafka == 0, ours=3), True),
        (OnPurpose("", "", "", ("s/other",), CODES, ours=3), False),
        (OnPurpose("", "", "", ("s/*",), ("error_code",), ours=3), False),
        (OnPurpose("", "", "", ("s/*",), ("topics[name=u].error_code",), ours=3), False),
        (OnPurpose("", "", "", ("s/*",), CODES, kafka=1, ours=3), False),
        (OnPurpose("", "", "", ("s/*",), CODES, ours=4), False),
        (OnPurpose("", "", "", ("s/*",), CODES, ours=lambda each: each.ours < 3), False),
        (OnPurpose("", "", "", ("s/*",), CODES, kafka=lambda each: False, ours=3), False),
        (OnPurpose("", "", ""), False),
    ],
)
def test_a_row_covers_what_it_describes(row: OnPurpose, covered: bool) -> None:
    (one,) = differences("s", [entry(rows(("t", 0)))], [entry(rows(("t", 3)))])

    assert row.covers(one) is covered


@pytest.mark.parametrize(
    "given",
    [
        {"cases": ("s/*",), "paths": CODES},
        {"cases": ("s/*",), "paths": CODES, "ours": ANY},
        {"cases": ("s/*",), "ours": 3},
        {"cases": ("s/*",), "paths": ("*",), "ours": 3},
        {"cases": ("s/*",), "paths": ("*.*",), "ours": 3},
        {"paths": CODES, "ours": 3},
    ],
)
def test_a_row_that_would_take_any_answer_cannot_be_written(given: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=r"what is ours|in which field"):
        OnPurpose("", "", "", **given)


def test_true_is_not_one() -> None:
    (one,) = differences("s", [entry({"a": 0})], [entry({"a": True})])
    assert not OnPurpose("", "", "", ("s/*",), ("a",), ours=1).covers(one)


def test_chance_gets_names_and_the_rest_stays() -> None:
    symbols = Symbols(lambda: NOW)
    symbols.call("id", b"0123456789abcdef", "id of t")
    answer = ProduceResponse(
        responses=[
            TopicProduceResponse(topic_id=each, partition_responses=[])
            for each in (b"0123456789abcdef", b"fedcba9876543210", bytes(16), b"\7" * 16)
        ]
    )

    said = plain(answer, 13, symbols)

    assert [each["topic_id"] for each in said["responses"]] == [
        *("id of t", "id 1", "no id", "id of 07 bytes"),
    ]
    assert "name" not in said["responses"][0]
    assert symbols.time(NOW + 5) == "now"
    assert symbols.time(THEN) == THEN


def test_sessions_are_told_apart() -> None:
    symbols = Symbols(lambda: NOW)
    said = [
        plain(FetchResponse(throttle_time_ms=0, session_id=each, responses=[]), 12, symbols)[
            "session_id"
        ]
        for each in (0, 77, 5, 77)
    ]

    assert said == [0, "session 1", "session 2", "session 1"]


def test_a_batch_is_told_by_its_header_and_content() -> None:
    symbols = Symbols(lambda: NOW)
    one, same, other, longer = (
        batches(each, symbols) for each in (batch(), batch(), batch(size=2), batch() + batch()[:9])
    )

    assert one == same
    assert one != other
    assert longer == [*one, {"offsets": "cut", "bytes": 9}]
    assert batches(b"\1" * 80, symbols)[0]["offsets"] == "none"


@pytest.mark.parametrize("at", [THEN, NOW])
def test_a_wrong_checksum_is_told(at: int) -> None:
    symbols = Symbols(lambda: NOW)
    (right,) = batches(batch(at=at), symbols)
    (wrong,) = batches(bytes(batch(at=at)[:-1]) + b"\x02", symbols)

    assert "wrong" not in right["crc"]
    assert wrong["crc"].endswith(", which is wrong")


def test_what_is_kept_comes_back(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    entries = [
        *(entry({"error_code": 0}, version=each) for each in range(3)),
        entry({"error_code": 3}, version=3),
        entry(CLOSED, "other", waited=True),
    ]

    kept.write("s", entries)

    assert kept.read("s") == entries
    assert len(kept.path_of("s").read_bytes().splitlines()) == 3
    assert kept.scenarios_kept() == {"s"}
    assert kept.read("nothing") == []


def test_key_words_of_kafkas_error_message_have_to_be_in_ours() -> None:
    kafka = {"error_message": worded("Topic 't' already exists.")}

    assert found(kafka, {"error_message": worded("topic 't' already exists")}) == []
    assert len(found(kafka, {"error_message": worded("there is one")})) == 1
    assert len(found(kafka, {"error_message": None})) == 1
    assert found({"error_message": WORDS}, kafka) == []
