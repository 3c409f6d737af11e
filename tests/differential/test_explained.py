"""What the table of differences must not explain: wrong answers beside those that it is about."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.differential.comparison import ABSENT, ANY, OUTCOME, UNSAID, Difference
from tests.differential.explained import ON_PURPOSE, explanation

EPOCHS: Final = "partitions.files.leader-epoch-checkpoint"
PRODUCED: Final = "responses.partition_responses"
READ: Final = "responses.partitions"


def difference(case: str, path: str, kafka: Any, ours: Any, where: str = "") -> Difference:
    scenario, _, label = case.partition("/")
    return Difference(scenario, label, "Fetch", 12, path, where or path, kafka, ours)


@pytest.mark.parametrize(
    ("case", "path", "kafka", "good", "bad"),
    [
        (
            "files_rolled/files",
            EPOCHS,
            ["0", "2", "0 0", "6 16"],
            ["0", "1", "0 0"],
            (
                ["0", "1", "77 999999"],
                ["0", "0"],
                ["0", "2", "0 0"],
                ["0", "2", "0 0", "7 16"],
                ABSENT,
            ),
        ),
        ("produce/producer: negative epoch", f"{PRODUCED}.error_code", 0, 87, (-1, 2, ABSENT)),
        ("produce/a time below -1", f"{PRODUCED}.error_code", 0, 32, (-1, 87)),
        ("produce/a short tail", f"{PRODUCED}.base_offset", 0, -1, (7, ABSENT)),
        ("fetch/zstd", f"{READ}.records.bytes", 183, 181, (18, 1830, ABSENT)),
        (
            "fetch/zstd",
            f"{READ}.records.crc",
            "4c058722",
            "6f7de180",
            ("6f7de180, which is wrong", ABSENT, 7),
        ),
        ("fetch/isolation 7", "error_code", -1, 42, (0, -2)),
        ("coordinators/a transaction", "error_code", 0, 15, (-1, 16)),
        ("administration/1 x", "finalized_features_epoch", 31, 29, (0, -1, ABSENT)),
        (
            "files_compacted/files",
            "partitions.files.00000000000000000000.log.times",
            [12, 12],
            [10, 12],
            ([10, 13], [13, 12], [12, 12], ["now", 12]),
        ),
        ("administration/1 x", "api_keys", {"api_key": 24}, ABSENT, ({"api_key": 24},)),
    ],
)
def test_only_the_answer_that_is_said_is_explained(
    case: str, path: str, kafka: Any, good: Any, bad: tuple[Any, ...]
) -> None:
    assert explanation(difference(case, path, kafka, good)) is not None
    for each in bad:
        assert explanation(difference(case, path, kafka, each)) is None, each


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("code", [0, 3])
def test_a_negative_limit_gives_the_first_batch_of_the_first_partition_alone(
    partition: int, code: int
) -> None:
    where = f"responses[topic=t].partitions[partition_index={partition}].error_code"
    found = difference("fetch/max_bytes -1", f"{READ}.error_code", -1, code, where)
    assert (explanation(found) is not None) == (partition == 0 and code == 0)


def test_the_partition_with_a_broken_batch_stays_refused() -> None:
    for index, is_explained in ((7, True), (0, False)):
        where = f"responses[name=odd].partition_responses[index={index}].error_code"
        one = difference("produce/magic 7 beside another", f"{PRODUCED}.error_code", 2, 0, where)
        assert (explanation(one) is not None) is is_explained


@pytest.mark.parametrize(
    ("null", "beside", "is_explained"),
    [
        ((87, -1), (0, 0), True),
        ((0, 0), (0, 1), False),
        ((87, 3), (0, 0), False),
        ((-1, -1), (0, 0), False),
        ((87, -1), (87, -1), False),
    ],
)
def test_null_alone_is_refused(
    null: tuple[int, int], beside: tuple[int, int], is_explained: bool
) -> None:
    partitions = [
        {"index": index, "error_code": code, "base_offset": offset}
        for index, (code, offset) in enumerate((null, beside))
    ]
    ours = {"responses": [{"name": "odd", "partition_responses": partitions}]}
    found = difference("produce/null", OUTCOME, "no answer", ours)
    assert (explanation(found) is not None) is is_explained


def test_an_api_that_is_served_may_not_go_missing() -> None:
    produce = {"api_key": 0, "min_version": 0, "max_version": 13}
    assert explanation(difference("frames/x", "api_keys", produce, ABSENT)) is None


def test_every_row_with_a_case_says_what_is_ours_and_in_which_field() -> None:
    """A row without is not to be made; see also tests/differential/test_comparison.py."""
    for row in ON_PURPOSE:
        is_said = row.ours is not UNSAID and row.ours is not ANY
        assert is_said == bool(row.cases), row.what
        assert "*" not in row.paths, row.what
