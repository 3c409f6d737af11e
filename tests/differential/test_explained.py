"""What the table of differences must not explain: wrong answers beside those that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.differential.comparison import ABSENT, ANY, ORDER, OUTCOME, UNSAID, Difference
from tests.differential.explained import ON_PURPOSE, explanation
from tests.differential.plain import WORDS

EPOCHS: Final = "partitions[name=by-index-0].files.leader-epoch-checkpoint"
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
        ("recorded_x/1 x", "finalized_features_epoch", 31, 29, (0, -1, ABSENT)),
        (
            "files_compacted/files",
            "partitions.files.00000000000000000000.log.times",
            [12, 12],
            [10, 12],
            ([10, 13], [13, 12], [12, 12], ["now", 12]),
        ),
    ],
)
def test_only_the_answer_that_is_said_is_explained(
    case: str, path: str, kafka: Any, good: Any, bad: tuple[Any, ...]
) -> None:
    assert explanation(difference(case, path, kafka, good)) is not None
    for each in bad:
        assert explanation(difference(case, path, kafka, each)) is None, each


@pytest.mark.parametrize(
    ("partition", "kafka"),
    [
        ("by-index-0", ["0", "2", "0 0", "6 15"]),  # one record was written in the newest epoch
        ("by-index-0", ["0", "3", "0 0", "6 16", "8 16"]),
        ("by-size-0", ["0", "2", "0 0", "6 16"]),
        ("another-0", ["0", "2", "0 0", "6 16"]),
    ],
)
def test_the_newest_epoch_goes_missing_only_where_nothing_was_written_in_it(
    partition: str, kafka: list[str]
) -> None:
    where = f"partitions[name={partition}].files.leader-epoch-checkpoint"
    ours = ["0", str(len(kafka) - 3), *kafka[2:-1]]
    path = "partitions.files.leader-epoch-checkpoint"
    assert explanation(difference("files_rolled/files", path, kafka, ours, where)) is None


@pytest.mark.parametrize(
    ("label", "version", "where", "is_explained"),
    [
        ("unknown topic", 9, "[name=nope].partition_responses[index=0]", True),
        ("wrong ones beside a right one", 9, "[name=t].partition_responses[index=9]", True),
        ("wrong ones beside a right one", 9, "[name=t].partition_responses[index=1]", False),
        ("several partitions", 9, "[name=t].partition_responses[index=0]", False),
        ("unknown topic", 3, "[name=nope].partition_responses[index=0]", False),
    ],
)
def test_a_message_stands_beside_an_error_only(
    label: str, version: int, where: str, is_explained: bool
) -> None:
    path = f"{PRODUCED}.error_message"
    found = Difference(
        "produce", label, "Produce", version, path, f"responses{where}.error_message", None, WORDS
    )
    assert (explanation(found) is not None) is is_explained
    assert explanation(replace(found, kafka=WORDS, ours=None)) is None, "our words are missing"


@pytest.mark.parametrize(
    ("case", "path", "ours", "is_explained"),
    [
        ("produce/no bytes", PRODUCED, ["index=0", "index=1"], True),
        ("produce/no bytes", PRODUCED, ["index=1", "index=0", "index=2"], False),
        ("produce/no bytes", "responses", ["index=0", "index=1"], False),
        ("produce/another", PRODUCED, ["index=0", "index=1"], False),
        ("log_dirs/all", "results.topics.partitions", ["partition_index=2", "x=10"], True),
        ("log_dirs/all", "results.topics.partitions", ["partition_index=10", "x=2"], False),
        ("group_offsets/list", "groups", ["group_id=g", "group_id="], False),
        ("recorded_x/1 ApiVersions", "finalized_features", ["name=a", "name=b"], True),
        ("recorded_x/1 ApiVersions", "finalized_features", ["name=b", "name=a"], False),
        ("recorded_x/1 ApiVersions", "api_keys", ["api_key=0", "api_key=1"], False),
        (
            "recorded_x/7 DescribeConfigs",
            "results[resource_type=2,resource_name=t].configs",
            ["name=cleanup.policy", "name=compression.type"],
            True,
        ),
        (
            "recorded_x/7 DescribeConfigs",
            "results[resource_type=2,resource_name=t].configs",
            ["name=compression.type", "name=cleanup.policy"],
            False,
        ),
    ],
)
def test_rows_have_the_one_order_that_is_said(
    case: str, path: str, ours: list[str], is_explained: bool
) -> None:
    found = difference(case, f"{path}.{ORDER}", ours[::-1], ours)
    assert (explanation(found) is not None) is is_explained


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
