"""Which rows of a stopped app have lost the offsets of the records that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.ids import Uuid
from moldau.streams import StateStore, Streams, within
from moldau.streams.engine.kept_times import KeptTimes, times_in
from moldau.streams.plan.lost_offsets import (
    LostOffsets,
    lost_offsets,
    sources,
    sources_on_machines,
    with_inputs,
)
from moldau.streams.plan.plan import Plan

COUNTS = {"lines": 2, "more": 2, "odd": 2, "even": 2}
IDS = {topic: Uuid(bytes([at + 1] * 16)) for at, topic in enumerate(COUNTS)}
ANEW = {**IDS, "more": Uuid(b"\xff" * 16)}


def merged() -> Plan:
    app = Streams("app")
    both = app.stream("lines", str, key=str).merge(app.stream("more", str, key=str))
    both.group_by_key().count(name="counts")
    return app.plan()


def joined() -> Plan:
    app = Streams("app")
    odd, even = (app.stream(each, str, key=str) for each in ("odd", "even"))
    odd.join(even, lambda one, other: one, within=within("1m"), name="near").to("out")
    return app.plan()


def text(*topics: str, time: int | None = None) -> str:
    kept = KeptTimes("0_0").text({} if time is None else {"counts": time})
    return with_inputs(kept, [IDS[each] for each in topics], 4000)


def committed(*topics: str, named: tuple[str, ...] = (), partition: int = 0) -> Any:
    return {TopicPartition(each, partition): text(*(named or topics)) for each in topics}


def lost(
    plan: Plan,
    offsets: Any,
    ids: Mapping[str, Uuid] = IDS,
    kept: Mapping[str, str] | None = None,
    partition: int = 0,
) -> list[LostOffsets]:
    found = lost_offsets(plan, COUNTS, offsets, ids, kept or {})
    return [each for each in found if each.partition == partition]


BOTH = ("lines", "more")


def test_an_input_that_had_an_offset_in_the_same_commit_has_lost_it() -> None:
    assert lost(merged(), committed(*BOTH)) == []
    (found,) = lost(merged(), committed("lines", named=BOTH))
    assert (found.inputs, found.is_certain) == (("more",), True)
    assert str(found) == "no offsets of more-0"


def test_an_input_that_was_never_read_has_lost_nothing() -> None:
    assert lost(merged(), committed("lines")) == []
    assert lost(merged(), {TopicPartition("lines", 0): ""}) == [], "an earlier release, or refused"
    assert lost(merged(), {TopicPartition("lines", 0): "moved to Spark {}"}) == []


def test_a_topic_that_was_created_anew_is_another_one() -> None:
    assert lost(merged(), committed("lines", named=BOTH), ANEW) == []


def test_a_new_partition_has_lost_nothing_that_is_certain() -> None:
    before = sources(merged(), IDS)
    (found,) = lost(merged(), committed(*BOTH), kept=before, partition=1)
    assert found.inputs == BOTH, "it has no rows, or they would be refused"


@pytest.mark.parametrize(
    ("ids", "kept", "is_certain"),
    [
        (IDS, sources(merged(), IDS), True),
        (ANEW, sources(merged(), IDS), False),
        (IDS, sources(merged(), ANEW), False),
        (IDS, {}, False),
    ],
    ids=["the same inputs", "created anew", "other inputs before", "not known"],
)
def test_a_task_without_offsets_is_certain_by_its_sources(
    ids: dict[str, Uuid], kept: dict[str, str], *, is_certain: bool
) -> None:
    (found,) = lost(merged(), committed(*BOTH, partition=1), ids, kept)
    assert (found.inputs, found.is_certain, found.is_whole) == (BOTH, is_certain, False)
    assert ("if they come of" in found.outcome) is not is_certain


def test_a_group_without_offsets_has_lost_them_unless_an_input_is_another_one() -> None:
    before = sources(merged(), IDS)
    assert [each.is_certain for each in lost(merged(), {}, kept=before)] == [True]
    assert [each.is_certain for each in lost(merged(), {})] == [True], "of an earlier release"
    assert [each.is_certain for each in lost(merged(), {}, ANEW, before)] == [False]
    assert str(lost(merged(), {})[0]) == "no offsets"


def test_only_stores_that_the_input_feeds_would_hold_its_records_twice() -> None:
    app = Streams("app")
    given = app.stream("lines", str, key=str)
    counts = given.group_by_key().count(name="counts")
    app.stream("more", str, key=str).join(counts, lambda one, _: one).to("out")
    assert lost(app.plan(), committed("lines", named=BOTH)) == []
    assert [each.store for each in lost(app.plan(), committed("more", named=BOTH))] == ["counts"]


def test_both_sides_of_a_join_lose_what_one_of_them_has_lost() -> None:
    found = lost(joined(), committed("odd", named=("odd", "even")))
    assert found
    assert {each.inputs for each in found} == {("even",)}


def test_rows_without_a_changelog_lose_their_offsets_too() -> None:
    def unlogged(*, in_memory: bool = False) -> Plan:
        app = Streams("app")
        both = app.stream("lines", str, key=str).merge(app.stream("more", str, key=str))
        both.group_by_key().count(name="counts", logged=False, in_memory=in_memory)
        return app.plan()

    plan = unlogged()
    (found,) = lost(plan, committed("lines", named=BOTH))
    assert (found.where, found.rows, found.is_certain) == (None, ("0_0", "counts"), True)
    before = sources(plan, IDS)
    assert [each.is_certain for each in lost(plan, {}, kept=before)] == [True]
    assert sources_on_machines(plan, sources(plan, ANEW), before) == before
    assert [each.is_certain for each in lost(plan, {}, ANEW, before)] == [False]
    assert sources_on_machines(merged(), before, before) == {}
    assert lost(unlogged(in_memory=True), {}) == [], "they begin empty with each start"


def test_a_table_of_an_input_is_read_again_rightly() -> None:
    app = Streams("app")
    app.table("lines", str, key=str, name="rows")
    assert lost(app.plan(), {}) == []


def test_what_a_clock_may_have_made_is_not_certain() -> None:
    class Ticks:
        def process(self, record: Any) -> None:
            """Nothing."""

    app = Streams("app")
    ticks = StateStore("ticks", key=str, value=int)
    both = app.stream("lines", str).merge(app.stream("more", str))
    both.process(lambda _: Ticks(), stores=[ticks], name="tick").to("out")
    assert [each.is_certain for each in lost(app.plan(), {})] == [False]
    (named,) = lost(app.plan(), committed("lines", named=BOTH))
    assert named.is_certain, "an offset was there, and is gone"


def test_brokers_without_topic_ids_say_nothing() -> None:
    none = dict.fromkeys(IDS, Uuid(bytes(16)))
    assert sources(merged(), none) == {}
    assert lost(merged(), committed("lines", named=BOTH), none) == []


def test_a_text_keeps_its_times_and_its_limit() -> None:
    assert times_in(text("lines", time=7), ["counts"]) == {"counts": 7}
    assert times_in(text("lines"), ["counts"]) == {}
    assert with_inputs('{"time":{}}', IDS.values(), 20) == '{"time":{}}'
