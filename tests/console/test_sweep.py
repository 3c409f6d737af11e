"""Pages through a topic, both ways: no message is missing, none comes twice."""

from __future__ import annotations

import random

import pytest

from moldau.console.pages.rendering import BadForm
from moldau.console.search.message import Message
from moldau.console.search.query import MessageQuery, edge_of, edge_text
from moldau.console.search.sweep import SHOWN, SLOW_S, MessagePage, Sweep

Topic = dict[int, list[Message]]


def topic(seed: int, *, is_in_order: bool = True) -> Topic:
    """Partitions of which some have gaps, as after a compaction, and one is empty."""
    draw = random.Random(seed)
    found: Topic = {7: []}
    for partition, count in ((0, 400), (1, 90), (2, 3)):
        at, now, rows = draw.randrange(50), 0, []
        for _ in range(count):
            now = now + draw.randrange(5) if is_in_order else draw.randrange(1_000)
            rows.append(Message(partition, at, now, "k", str(draw.randrange(10)), ()))
            at += 1 if draw.random() < 0.8 else draw.randrange(1, 120)
        found[partition] = rows
    return found


def bounds(rows: Topic) -> tuple[dict[int, int], dict[int, int]]:
    """Begins and ends; behind the last record are marks of transactions."""
    low = {each: messages[0].offset if messages else 5 for each, messages in rows.items()}
    high = {each: messages[-1].offset + 9 if messages else 5 for each, messages in rows.items()}
    return low, high


def swept(
    rows: Topic, low: dict[int, int], high: dict[int, int], *, is_back: bool, digit: str = ""
) -> tuple[MessagePage, Sweep]:
    """The page between two edges, of messages with this value."""
    sweep = Sweep(low, high, is_back=is_back)
    while windows := sweep.ready(0.0):
        for window in windows:
            there = [
                each for each in rows[window.partition] if window.low <= each.offset < window.high
            ]
            edge = there[0 if is_back else -1].timestamp_ms if there else None
            messages = [each for each in there if digit in each.value]
            sweep.on_window(window, len(there), messages, edge)
    assert sweep.is_done
    return sweep.page(newest_first=True), sweep


@pytest.mark.parametrize("digit", ["", "3"])
@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_older_pages_have_every_message_once_and_newer_ones_lead_back(
    seed: int, *, is_in_order: bool, digit: str
) -> None:
    rows = topic(seed, is_in_order=is_in_order)
    low, high = bounds(rows)
    every = [each for messages in rows.values() for each in messages if digit in each.value]
    pages, edge = list[MessagePage](), high
    while any(edge[each] > low[each] for each in edge):
        page, _ = swept(rows, low, edge, is_back=True, digit=digit)
        assert len(page.messages) == SHOWN or dict(page.low) == low
        pages.append(page)
        edge = dict(page.low)
    seen = [each for page in pages for each in page.messages]
    assert len(seen) == len(every)
    assert {(each.partition, each.offset) for each in seen} == {
        (each.partition, each.offset) for each in every
    }
    if is_in_order:
        assert [each.timestamp_ms for each in seen] == sorted(
            (each.timestamp_ms for each in every), reverse=True
        )
    edge, back = low, list[Message]()
    while any(edge[each] < high[each] for each in edge):
        page, _ = swept(rows, edge, high, is_back=False, digit=digit)
        back = page.messages + back
        edge = dict(page.high)
    assert len(back) == len(every)
    assert [each.timestamp_ms for each in back] == [each.timestamp_ms for each in seen] or (
        not is_in_order
    )


def test_a_page_that_is_full_reads_no_more_than_it_needs() -> None:
    rows = {0: [Message(0, at, at, "k", "v", ()) for at in range(100_000)]}
    page, sweep = swept(rows, {0: 0}, {0: 100_000}, is_back=True)
    assert [each.offset for each in page.messages] == list(range(99_999, 99_949, -1))
    assert (sweep.records, sweep.covered, sweep.total) == (SHOWN, SHOWN, 100_000)


def test_many_partitions_keep_no_more_messages_than_a_few_pages() -> None:
    """Partition 0 is the newest; of the others each has as many matches."""
    rows = {
        each: [Message(each, at, at - 1_000 * each, "k", "v", ()) for at in range(60)]
        for each in range(40)
    }
    low, high = dict.fromkeys(rows, 0), dict.fromkeys(rows, 60)
    page, sweep = swept(rows, low, high, is_back=True)
    assert {each.partition for each in page.messages} == {0}
    assert len(page.messages) == SHOWN
    assert dict(page.low) == high | {0: 10}
    assert sum(len(each.found) for each in sweep._lanes.values()) <= 5 * SHOWN
    following, _ = swept(rows, low, dict(page.low), is_back=True)
    assert [each.offset for each in following.messages] == [*range(9, -1, -1), *range(59, 19, -1)]


def test_windows_become_narrower_where_records_are_slow_to_read() -> None:
    sweep = Sweep({0: 0}, {0: 10_000_000}, is_back=True, most=None)
    widths, now = [], 0.0
    for took in (0.0, 0.0, 0.0, 2 * SLOW_S, 2 * SLOW_S, (SLOW_S / 2)):
        (window,) = sweep.ready(now)
        widths.append(window.high - window.low)
        sweep.on_window(window, 0, [], None)
        now += took
    assert widths == [50, 200, 800, 3200, 800, 200]


def test_what_was_read_in_part_does_not_count() -> None:
    sweep = Sweep({0: 0, 1: 0}, {0: 100, 1: 100}, is_back=True)
    first, _ = sweep.ready(0.0)
    sweep.on_window(first, 50, [Message(0, 60, 1, "k", "v", ())], 1)
    page = sweep.page(newest_first=True)
    assert (dict(page.low), dict(page.high)) == ({0: 50, 1: 100}, {0: 100, 1: 100})
    assert not sweep.is_done


def test_an_address_keeps_what_was_asked_for_and_its_edges() -> None:
    asked = {"from": "oldest", "partition": "3", "where": 'value.a > 1 and key == "b"', "text": "x"}
    query = MessageQuery.of({**asked, "after": edge_text({3: 17, 1: 2})})
    assert edge_of(query.after) == {1: 2, 3: 17}
    assert query.address() == (
        "from=oldest&partition=3&text=x&where=value.a+%3E+1+and+key+%3D%3D+%22b%22&after=1.2_3.17"
    )
    assert "after" not in query.address(after="")


@pytest.mark.parametrize("edge", ["1", "1.", "x.1", "1.1__", "1.-2", "1." + "9" * 30, "0" * 99_999])
def test_an_edge_that_was_typed_is_refused(edge: str) -> None:
    with pytest.raises(BadForm, match="before, after"):
        MessageQuery.of({"before": edge})
