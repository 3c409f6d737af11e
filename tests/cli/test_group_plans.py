"""What `moldau group` decides by itself: scopes, files, rules, paces and what it shows of them."""

from __future__ import annotations

import asyncio
import io
import json
import re
from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from moldau.cli.command import Context, UsageError
from moldau.cli.commands import group_watch
from moldau.cli.commands.cluster_connection import OpenClient
from moldau.cli.commands.group_offsets import offset_lines, parse_offsets_file, write_plan
from moldau.cli.commands.group_report import facts_of, headline, write_report
from moldau.cli.commands.group_watch import Pace, screen, seen, watch
from moldau.client import (
    Admin,
    Broker,
    GroupDescription,
    GroupProgress,
    MemberDescription,
    OffsetAndMetadata,
    Partition,
    PartitionProgress,
    Topic,
    TopicPartition,
)
from moldau.errors import BadGiven
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address
from moldau.operations import offsets
from moldau.operations.offsets import (
    NothingCommitted,
    OffsetChange,
    Outcome,
    PartitionOffsets,
    is_in,
    obstacles,
    parse_scope,
    within,
)
from moldau.plugins import Plugins
from tests.cli.shell import Terminal

ORDERS = TopicPartition("orders", 0)


def test_a_scope_is_topics_and_some_of_their_partitions() -> None:
    assert parse_scope([]) == {}
    assert parse_scope(["a", "b:0,2", "b:1,2"]) == {"a": None, "b": [0, 2, 1]}
    assert parse_scope(["a:1", "a"]) == {"a": None}
    assert parse_scope(["a", "a:1"]) == {"a": None}
    scope = parse_scope(["a", "b:2"])
    assert is_in(scope, TopicPartition("a", 9))
    assert is_in(scope, TopicPartition("b", 2))
    assert not is_in(scope, TopicPartition("b", 1))
    assert not is_in(scope, TopicPartition("c", 0))


@pytest.mark.parametrize("word", ["", ":1", "a:", "a:x", "a:-1", "a:1,", "a:1:2", "a:2147483648"])
def test_what_is_no_scope_is_refused(word: str) -> None:
    with pytest.raises(BadGiven):
        parse_scope([word])


def test_files_name_the_group_or_are_of_the_one_that_was_named() -> None:
    assert parse_offsets_file("orders,0,5\n\norders, 1, 6\n", ["g"]) == {
        "g": {ORDERS: 5, TopicPartition("orders", 1): 6}
    }
    assert parse_offsets_file('g,"orders",0,5\nh,orders,0,7', []) == {
        "g": {ORDERS: 5},
        "h": {ORDERS: 7},
    }


@pytest.mark.parametrize(
    "group", ["two\nlines", "two\r\nlines", "two\rlines", "ends\n", 'a "b", c', "a\u2028b"]
)
def test_a_file_may_name_any_group(group: str) -> None:
    step = OffsetChange(group, ORDERS, before=1, after=5, end=9)
    lines = offset_lines([step], has_groups=True)
    assert parse_offsets_file("".join(lines), []) == {group: {ORDERS: 5}}


@pytest.mark.parametrize(
    ("text", "groups", "told"),
    [
        ('"two\nlines",orders,0,5\ng,orders', [], "line 3 is not"),
        ("orders,0,5", [], "line 1 names no group"),
        ("orders,0,5", ["g", "h"], "line 1 names no group"),
        ("g,orders,0,5\nh,orders,0,5", ["g"], "line 2 is of group h"),
        ("orders,0", ["g"], "line 1 is not"),
        ("orders,x,5", ["g"], "'x' is no partition in line 1"),
        ("orders,0,-5", ["g"], "'-5' is no offset in line 1"),
        ("orders,2147483648,5", ["g"], "'2147483648' is no partition in line 1"),
        (f"orders,0,{2**63}", ["g"], f"'{2**63}' is no offset in line 1"),
        ("orders,0,5\norders,0,6", ["g"], "line 2 names orders-0 again"),
        (" \n", ["g"], "no offsets"),
        ("orders,0,5\n" + "o" * 200_000, ["g"], "line 2 cannot be read: field larger"),
    ],
)
def test_a_bad_file_is_refused_by_its_line(text: str, groups: list[str], told: str) -> None:
    with pytest.raises((BadGiven, UsageError), match=told):
        parse_offsets_file(text, groups)


KNOWN = PartitionOffsets(committed=40, start=10, end=100, at_time=70)
FRESH = PartitionOffsets(committed=None, start=10, end=100)


@pytest.mark.parametrize(
    ("rule", "known", "after", "note"),
    [
        (offsets.to_earliest, KNOWN, 10, ""),
        (offsets.to_latest, KNOWN, 100, ""),
        (offsets.to_current, KNOWN, 40, ""),
        (offsets.to_current, FRESH, 100, "nothing is committed: the end"),
        (offsets.to_current, PartitionOffsets(3, 10, 100), 10, "3 is below where the log begins"),
        (offsets.to_time, KNOWN, 70, ""),
        (offsets.to_time, FRESH, 100, "no record is as new: the end"),
        (offsets.to_offset(50), FRESH, 50, ""),
        (offsets.to_offset(9), KNOWN, 10, "9 is below where the log begins"),
        (offsets.to_offset(101), KNOWN, 100, "101 is beyond the end"),
        (offsets.shift_by(-5), KNOWN, 35, ""),
        (offsets.shift_by(-50), KNOWN, 10, "-10 is below where the log begins"),
        (offsets.shift_by(61), KNOWN, 100, "101 is beyond the end"),
    ],
)
def test_rules_choose_an_offset_that_the_log_has(
    rule: offsets.Rule, known: PartitionOffsets, after: int, note: str
) -> None:
    assert rule(known) == (after, note)


def test_without_a_committed_offset_there_is_nothing_to_shift() -> None:
    with pytest.raises(NothingCommitted):
        offsets.shift_by(1)(FRESH)


def test_the_ends_of_a_log_are_within_it() -> None:
    assert within(10, 10, 100) == (10, "")
    assert within(100, 10, 100) == (100, "")


STEPS = [
    OffsetChange("g", ORDERS, 40, 10, 100),
    OffsetChange("g", TopicPartition("orders", 1), None, 7, 7, "no record is as new: the end"),
    OffsetChange("g", TopicPartition("gone", 0), 5, None, None, "the topic is gone"),
    OffsetChange(
        "g", TopicPartition("lost", 0), 5, None, None, "it has no leader", is_obstacle=True
    ),
]


def test_members_and_partitions_that_cannot_be_asked_stand_in_the_way() -> None:
    lost = "lost-0 of group g: it has no leader"
    taken = "group g has 1 member: stop them first"
    assert obstacles(STEPS, {"g": 0}) == {"g": [lost]}
    assert obstacles(STEPS, {"g": 1}) == {"g": [taken, lost]}
    assert obstacles(STEPS[:3], {"g": 1, "h": 2, "i": 0}) == {
        "g": [taken],
        "h": ["group h has 2 members: stop them first"],
    }


@pytest.mark.parametrize(
    ("topic", "before", "note", "is_obstacle"),
    [
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 5, "the topic is gone", False),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None, "UNKNOWN_TOPIC", True),
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 5, "TOPIC_AUTHORIZATION", True),
        (
            Topic("orders", b"", (Partition(0, -1, 3, (1,), ()),)),
            5,
            "the partition has no leader",
            True,
        ),
        (Topic("orders", b"", ()), 5, "no such partition", True),
    ],
)
def test_only_a_topic_that_is_gone_may_be_left_out(
    topic: Topic | KafkaError, before: int | None, note: str, is_obstacle: bool
) -> None:
    step = offsets.unreachable("g", ORDERS, before, topic)
    assert step.note.startswith(note)
    assert (step.before, step.after, step.is_obstacle) == (before, None, is_obstacle)


def test_a_plan_is_shown_as_before_and_after() -> None:
    out, err = io.StringIO(), io.StringIO()
    context = Context(out, err, {}, lambda: Plugins([]))
    write_plan(Namespace(json=False, execute=False), context, STEPS, Outcome({"g": ["not now"]}))
    assert out.getvalue() == (
        "GROUP  TOPIC   PARTITION  BEFORE  AFTER  CHANGE  LAG AFTER  NOTE\n"
        "g      orders  0          40      10     -30     90\n"
        "g      orders  1          -       7      -       0          no record is as new: the end\n"
        "g      gone    0          5       -      -       -          the topic is gone\n"
        "g      lost    0          5       -      -       -          it has no leader\n"
        "dry run: nothing was changed; --execute does it\n"
    )
    assert err.getvalue() == "moldau: not now\n"


@pytest.mark.parametrize(
    ("execute", "outcome", "executed"),
    [
        (False, Outcome(), {"g": False, "h": False}),
        (True, Outcome(), {"g": True, "h": True}),
        (True, Outcome({"g": ["not now"]}), {"g": False, "h": True}),
        (True, Outcome({"g": ["not now"]}, {"h": "NO"}), {"g": False, "h": False}),
        (False, Outcome({"h": ["not now", "nor then"]}), {"g": False, "h": False}),
        (True, Outcome(failures={"h": "NO"}), {"g": True, "h": False}),
    ],
)
def test_programs_hear_of_each_group_whether_it_was_changed(
    execute: bool, outcome: Outcome, executed: dict[str, bool]
) -> None:
    out = io.StringIO()
    context = Context(out, io.StringIO(), {}, lambda: Plugins([]))
    steps = [*STEPS[:2], OffsetChange("h", ORDERS, 1, 2, 3)]
    write_plan(Namespace(json=True, execute=execute), context, steps, outcome)
    told = json.loads(out.getvalue())
    assert {each["group"]: each["executed"] for each in told["groups"]} == executed
    errors = {"g": outcome.error("g"), "h": outcome.error("h")}
    assert {each["group"]: each["error"] for each in told["groups"]} == errors
    assert told["executed"] is all(executed.values())
    assert told["obstacles"] == outcome.problems


def test_a_group_that_was_not_changed_is_shown_as_such() -> None:
    out, err = io.StringIO(), io.StringIO()
    context = Context(out, err, {}, lambda: Plugins([]))
    steps = [*STEPS[:2], OffsetChange("h", ORDERS, 1, 2, 3), OffsetChange("i", ORDERS, 1, 2, 3)]
    outcome = Outcome({"g": ["not now"]}, {"h": "NO"})
    write_plan(Namespace(json=False, execute=True), context, steps, outcome)
    table = [re.split("  +", line) for line in out.getvalue().splitlines()]
    assert [row[7:] for row in table] == [
        ["NOTE"],
        ["not changed"],
        ["not changed; no record is as new: the end"],
        ["not changed"],
        [],
    ]
    assert err.getvalue() == "moldau: not now\nmoldau: not changed: NO\n"


MEMBER = MemberDescription(
    "m-1", "i-1", "app", "/10.0.0.1", ("orders",), "", (ORDERS,), (ORDERS,), None, 4, False
)


def progress(committed: dict[int, int | None], ends: dict[int, int | None]) -> GroupProgress:
    """A group of one member that reads partition 0 of orders."""
    return GroupProgress(
        GroupDescription("g", "Stable", "consumer", "consumer", "uniform", (MEMBER,), 4, 4),
        Broker(1, Address("localhost", 9092)),
        tuple(
            PartitionProgress(
                TopicPartition("orders", index),
                None if offset is None else OffsetAndMetadata(offset, "n", 3),
                ends[index],
                None if index else MEMBER,
            )
            for index, offset in committed.items()
        ),
    )


def test_lag_is_of_what_is_known() -> None:
    found = progress({0: 40, 1: None, 2: 7}, {0: 100, 1: 50, 2: None})
    assert [each.lag for each in found.partitions] == [60, None, None]
    assert found.lag == 60
    assert headline(found) == (
        "g: Stable, consumer protocol, assignor uniform, coordinator 1 (localhost:9092), "
        "1 member, lag 60"
    )
    facts = facts_of(found)
    assert facts["offsets"][0] == {
        "topic": "orders",
        "partition": 0,
        "committed": 40,
        "leader_epoch": 3,
        "metadata": "n",
        "end": 100,
        "lag": 60,
        "member_id": "m-1",
    }
    assert facts["members"][0]["assignment"] == [{"topic": "orders", "partition": 0}]


def test_a_report_has_what_was_asked_for() -> None:
    found = [progress({0: 40}, {0: 100})]

    def told(**asked: bool) -> list[str]:
        nothing = {"state": False, "members": False, "offsets": False, "verbose": False}
        out = io.StringIO()
        write_report(out, found, Namespace(**{**nothing, **asked}))
        return out.getvalue().splitlines()

    assert [line.split()[0] for line in told()] == ["g:", "GROUP", "g", "GROUP", "g"]
    assert told(state=True)[1].split() == [
        *("g", "Stable", "consumer", "uniform", "1", "(localhost:9092)", "4", "1", "60")
    ]
    assert told(members=True)[1].split() == ["g", "m-1", "i-1", "/10.0.0.1", "app", "1", "orders:0"]
    assert told(members=True, verbose=True)[1].split()[5:] == [
        *("1", "4", "consumer", "orders", "orders:0", "orders:0")
    ]
    assert told(offsets=True, verbose=True)[1].split() == [
        *("g", "orders", "0", "40", "100", "60", "m-1", "/10.0.0.1", "app", "3", "n")
    ]


def test_two_looks_tell_how_fast_it_goes() -> None:
    before = progress({0: 40, 1: None}, {0: 100, 1: 5})
    now = progress({0: 70, 1: 5, 2: 1}, {0: 110, 1: 5, 2: 9})
    told = seen(now, before, 2.0)
    assert told.by_partition == {
        ORDERS: Pace(15.0, 5.0),
        TopicPartition("orders", 1): Pace(),
        TopicPartition("orders", 2): Pace(),
    }
    assert told.pace == Pace(15.0, 5.0)
    assert told.pace.left_s(now.lag) == (40 + 0 + 8) / 10
    assert Pace(5.0, 5.0).left_s(10) is None
    assert Pace().left_s(10) is None
    assert seen(now, None, 2.0).pace == Pace()


class Admins:
    """Answers with one look after the other, two seconds apart."""

    def __init__(self, looks: list[GroupProgress]) -> None:
        self.looks = iter(looks)
        self.seconds = 0.0
        self.runtime = self
        self.clock = self

    def monotonic(self) -> float:
        self.seconds += 2.0
        return self.seconds

    def wall_ms(self) -> int:
        return 0

    def run(self, action: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run(action(None))

    async def look(self, _: object) -> list[GroupProgress]:
        return [next(self.looks)]


def test_who_watches_sees_the_speed_between_looks() -> None:
    looks = [progress({0: 40}, {0: 100}), progress({0: 60}, {0: 110}), progress({0: 110}, {0: 110})]
    admins = Admins(looks)
    out = io.StringIO()
    context = Context(out, io.StringIO(), {}, lambda: Plugins([]))
    arguments = Namespace(json=False, times=3, every=0)
    assert watch(arguments, context, cast("OpenClient[Admin]", admins), admins.look) == 0
    assert out.getvalue().splitlines() == [
        "00:00:00Z g Stable members=1 lag=60",
        "00:00:00Z g Stable members=1 lag=50 read=10/s written=5/s done-in=10s",
        "00:00:00Z g Stable members=1 lag=0 read=25/s written=0/s",
    ]


def test_who_watches_hears_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Err(io.StringIO):
        def flush(self) -> None:
            told.set()

    async def look(_: object) -> list[GroupProgress]:
        await told.wait()
        return []

    told, err = asyncio.Event(), Err()
    monkeypatch.setattr(group_watch, "_SILENCE_S", 0.001)
    context = Context(io.StringIO(), err, {}, lambda: Plugins([]))
    arguments = Namespace(json=False, times=1, every=0)
    assert watch(arguments, context, cast("OpenClient[Admin]", Admins([])), look) == 0
    assert err.getvalue().startswith("moldau: no answer for 0 s, still asking\n")


def test_what_is_said_beside_a_screen_does_not_tear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. A table is shown. 2. Nobody answers for a while. 3. The table is drawn anew, over what it
    was, and nothing but."""

    class Both(Terminal):
        def write(self, text: str) -> int:
            if "still asking" in text:
                told.set()
            return super().write(text)

    async def look(_: object) -> list[GroupProgress]:
        if looks:
            await told.wait()
        looks.append(1)
        return [progress({0: 40}, {0: 100})]

    looks: list[int] = []
    told, terminal = asyncio.Event(), Both()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(group_watch, "_SILENCE_S", 0.001)
    context = Context(terminal, terminal, {}, lambda: Plugins([]))
    arguments = Namespace(json=False, times=2, every=0)
    assert watch(arguments, context, cast("OpenClient[Admin]", Admins([])), look) == 0
    (line,) = {each for each in terminal.getvalue().splitlines() if "still asking" in each}
    assert line.rpartition("\x1b[2K")[2] == "moldau: no answer for 0 s, still asking"


def test_the_screen_has_those_that_are_furthest_behind_on_top() -> None:
    from rich.console import Console

    now = progress({0: 90, 1: 5, 2: 95}, {0: 100, 1: 50, 2: None})
    terminal = Terminal()
    Console(file=terminal, width=160).print(screen([seen(now, now, 1.0)]))
    told = terminal.getvalue()
    cells = [line.split("\u2502") for line in told.splitlines() if "\u2502 orders" in line]
    lags = [each[5].strip() for each in cells]
    assert lags == ["45", "10", "-"]
    assert "lag 55 read=0/s written=0/s" in told


def test_a_screen_that_is_too_narrow_cuts_nothing_short() -> None:
    from rich.console import Console

    now = progress({0: 1234567890}, {0: 1234567899})
    terminal = Terminal()
    Console(file=terminal, width=60).print(screen([seen(now, now, 1.0)]))
    rows = [line.split("\u2502") for line in terminal.getvalue().splitlines() if "\u2502" in line]
    assert "".join(each[3].strip() for each in rows) == "1234567890"
    assert "\u2026" not in terminal.getvalue()
