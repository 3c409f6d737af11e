"""Replies: each record goes back to where the request that it was made of waits for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from moldau.streams import (
    RecordFailed,
    ReplyFailed,
    ReplyTimeout,
    Streams,
    TopologyError,
    dead_letter,
    retry,
)
from moldau.streams.plan.drawing import draw_svg
from moldau.streams.plan.replies import (
    CORRELATION_ID,
    REPLY_PARTITION,
    REPLY_TOPIC,
    ReplyAddress,
)
from moldau.streams.plan.text import explain_text
from moldau.streams.spark.limits import refusals


def root(value: int) -> int:
    if value < 0:
        raise ValueError(f"{value} is below 0")
    return int(value**0.5)


def roots(**options: Any) -> Streams:
    app = Streams("roots", **options)
    app.stream("numbers", int, key=str).map_values(root).reply()
    return app


def test_a_request_is_answered_and_a_record_of_none_is_not() -> None:
    driver = roots().test()
    driver.pipe("numbers", 16, key="a")
    assert driver.ask("numbers", 25, key="a") == 5
    assert driver.ask("numbers", 36, key="a", type=str) == "6"
    assert driver.counters() == {"skipped": 0, "dead-lettered": 0}


def test_the_reply_has_the_key_and_the_correlation_id_alone() -> None:
    driver = roots().test()
    address = ReplyAddress("driver-replies", 3, b"id")
    headers = [*address.request_headers(), ("other", b"x")]
    driver.pipe("numbers", 16, key="a", headers=headers, timestamp=7)
    found = driver.read_bytes("driver-replies")
    assert found == [(b"a", b"4", 7, ((CORRELATION_ID, b"id"),))]


def test_partition_and_correlation_id_may_be_missing() -> None:
    assert ReplyAddress.of([(REPLY_TOPIC, b"a-replies")]) == ("a-replies", None, None)


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [(REPLY_TOPIC, None)],
        [(REPLY_TOPIC, b"\xff")],
        [(REPLY_TOPIC, b"t"), (REPLY_PARTITION, b"1")],
        [(REPLY_TOPIC, b"t"), (REPLY_PARTITION, b"\xff" * 4)],
    ],
)
def test_headers_that_name_no_place(headers: Any) -> None:
    assert ReplyAddress.of(headers) is None


def test_the_headers_are_those_of_spring() -> None:
    address = ReplyAddress("t", 258, b"0123456789abcdef")
    assert dict(address.request_headers()) == {
        "kafka_replyTopic": b"t",
        "kafka_replyPartition": b"\0\0\1\2",
        "kafka_correlationId": b"0123456789abcdef",
    }
    assert ReplyAddress.of(address.request_headers()) == address


@pytest.mark.parametrize("policy", ["reply", retry(2, then="reply")])
def test_an_error_of_the_function_is_the_reply(policy: Any) -> None:
    driver = roots(on_error=policy).test()
    with pytest.raises(ReplyFailed) as failed:
        driver.ask("numbers", -4, timeout="1s")
    assert str(failed.value) == (
        "topic=numbers: the request failed: app=roots operator=map_values(root): "
        "ValueError: -4 is below 0"
    )
    assert driver.now_ms == (0 if policy == "reply" else 300)
    assert driver.ask("numbers", 4) == 2
    assert driver.counters()["skipped"] == 1


def test_a_request_that_cannot_be_read_is_answered() -> None:
    driver = roots(on_error="reply").test()
    with pytest.raises(ReplyFailed, match=r"operator=numbers: "):
        driver.ask("numbers", "four")


def test_an_error_of_no_request_fails_as_without_the_policy() -> None:
    driver = roots(on_error="reply").test()
    with pytest.raises(RecordFailed, match=r"-1 is below 0"):
        driver.pipe("numbers", -1)


def test_errors_are_dead_letters_too() -> None:
    driver = roots(on_error="reply").test(dead_letters="dead")
    with pytest.raises(ReplyFailed):
        driver.ask("numbers", -4)
    assert [each.value for each in driver.read("dead", type=int)] == [-4]


def test_without_the_policy_an_error_is_no_reply() -> None:
    with pytest.raises(ReplyTimeout, match="the app sends no reply"):
        roots(on_error=dead_letter("dead")).test().ask("numbers", -4)
    with pytest.raises(RecordFailed):
        roots().test().ask("numbers", -4)


async def looked_up(value: int) -> str:
    if value < 0:
        raise KeyError(value)
    return f"row {value}"


def test_async_functions_and_repartitions_are_passed() -> None:
    app = Streams("app", on_error="reply")
    rows = app.stream("in", int).map_values(looked_up)
    rows.select_key(lambda row: row).repartition("by-row").map_values(str.upper).reply()
    driver = app.test(partitions=2)
    assert driver.ask("in", 5, type=str) == "ROW 5"
    with pytest.raises(ReplyFailed, match=r"operator=map_values.looked_up.: KeyError: -5"):
        driver.ask("in", -5)


def test_a_table_replies_with_its_update() -> None:
    app = Streams("app")
    counts = app.stream("in", str, key=str).group_by_key().count(name="counts", emit="every")
    counts.changes().reply()
    driver = app.test()
    assert [driver.ask("in", "x", key="a") for _ in range(3)] == [1, 2, 3]


def test_an_error_behind_a_commit_is_a_reply() -> None:
    app = Streams("app", on_error="reply")
    counts = app.stream("in", str, key=str).group_by_key().count(name="counts")
    counts.changes().map_values(lambda count: 1 // (2 - count)).reply()
    driver = app.test()
    assert driver.ask("in", "x", key="a") == 1
    with pytest.raises(ReplyFailed, match="ZeroDivisionError"):
        driver.ask("in", "x", key="a")


def test_only_allowed_topics_get_replies() -> None:
    driver = roots(reply_topics=r"ours\..*").test()
    with pytest.raises(ReplyTimeout, match="reply_topics allow driver-replies"):
        driver.ask("numbers", 4)
    assert driver.counters()["refused replies"] == 1
    address = ReplyAddress("ours.x", 0, b"id")
    driver.pipe("numbers", 4, headers=address.request_headers())
    assert [each.value for each in driver.read("ours.x", type=int)] == [2]
    with pytest.raises(TopologyError, match=r"reply_topics='\('"):
        Streams("app", reply_topics="(")
    Streams("app", reply_topics=re.compile("x"))


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_replies_do_not_depend_on_batches(batch: int) -> None:
    driver = roots(on_error="reply").test(batch=batch)
    for at in range(20):
        address = ReplyAddress("driver-replies", at, b"%d" % at)
        value = -1 if at % 5 == 4 else at * at
        driver.add("numbers", [("a", value, at)], headers=address.request_headers())
    driver.run()
    found = driver.read_bytes("driver-replies")
    assert [dict(headers)[CORRELATION_ID] for *_, headers in found] == [
        b"%d" % at for at in range(20)
    ]
    assert [value for _, value, *_ in found] == [
        None if at % 5 == 4 else b"%d" % at for at in range(20)
    ]


def test_plans_show_replies() -> None:
    plan = roots().plan()
    assert "reply: reply to the topic that the request names" in explain_text(plan)
    assert list(refusals(plan)) == ["reply"]
    assert 'on_error="reply"' in refusals(roots(on_error=retry(1, then="reply")).plan())
    assert "reply" in draw_svg(plan)
