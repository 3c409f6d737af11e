"""What becomes of each store when another version of an app starts beside what runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moldau.streams import StateStore, Streams, tumbling, until_time
from moldau.streams.plan.lost_offsets import LostOffsets
from moldau.streams.plan.plan import Plan
from moldau.streams.plan.store_versions import StoreVersion, version_key, versions_in
from moldau.streams.plan.topology import Topology, to_keep
from moldau.streams.plan.upgrade import RunningApp, Upgrade, kept_topology, upgrade

CHANGELOG, REPARTITION = "wc-counts-changelog", "wc-counts-repartition"
TOPICS = {"lines": 2, "out": 2, CHANGELOG: 2, REPARTITION: 2, "wc-moldau-topology": 1}


def app(*, key: Any = lambda line: line, kind: type = int, **options: Any) -> Plan:
    streams = Streams("wc")
    grouped = streams.stream("lines", str).group_by(key)
    name = options.pop("name", "counts")
    grouped.aggregate(kind, lambda so_far, _: so_far, name=name, type=kind, **options)
    return streams.plan()


def running(plan: Plan | None = None, **changed: Any) -> RunningApp:
    plan = plan or app()
    made = [CHANGELOG, REPARTITION, "wc-moldau-topology"]
    found = RunningApp(kept_topology(plan), {}, TOPICS, made, {CHANGELOG: (0, 1)}, has_offsets=True)
    return replace(found, **changed)


def fates(found: Upgrade) -> dict[str, str]:
    return {each.name: each.fate for each in found.stores}


def topics(found: Upgrade) -> dict[str, str]:
    return {each.name: each.fate for each in found.topics}


def test_the_same_app_keeps_all() -> None:
    found = upgrade(app(), running())
    assert (fates(found), found.problems, found.notes) == ({"counts": "survives"}, (), ())
    assert found.stores[0].restored_from == CHANGELOG
    assert set(topics(found).values()) == {"fits"}


def test_a_first_start_begins_with_nothing() -> None:
    nothing = running(
        topology=None, topics={"lines": 2, "out": 2}, made=[], filled={}, has_offsets=False
    )
    found = upgrade(app(), nothing)
    assert (fates(found), found.problems) == ({"counts": "new"}, ())
    assert topics(found) == {REPARTITION: "new", CHANGELOG: "new"}


def test_a_renamed_store_is_left_behind() -> None:
    found = upgrade(app(name="totals"), running())
    assert fates(found) == {"totals": "new", "counts": "left behind"}
    assert {name for name, fate in topics(found).items() if fate == "left over"} == {
        CHANGELOG,
        REPARTITION,
    }
    assert "gone: store counts" in found.problems[0]


def test_a_changelog_that_is_gone_is_a_loss() -> None:
    left = {name: count for name, count in TOPICS.items() if name != CHANGELOG}
    found = upgrade(app(), running(topics=left, filled={}))
    assert fates(found) == {"counts": "lost"}
    assert "is gone" in found.problems[0]


def test_an_input_with_more_partitions_moves_keys() -> None:
    found = upgrade(app(), running(topics={**TOPICS, "lines": 3}))
    assert fates(found) == {"counts": "refused"}
    assert topics(found) == {REPARTITION: "refused", CHANGELOG: "refused"}
    assert any("keys would move" in each for each in found.problems)
    assert any("taken before an input gets more partitions" in each for each in found.problems)


def test_records_that_are_gone_unread_are_a_loss() -> None:
    (said,) = upgrade(app(), running(gone={("lines", 1): (10, 100), ("out", 0): (1, 2)})).problems
    assert "input lines partition 1: 90 records" in said
    assert "read up to 10, and the log begins at 100" in said


def test_a_store_that_cannot_be_divided_is_told_before_a_reset() -> None:
    streams = Streams("wc")
    counts = streams.stream("lines", str, key=str).group_by_key().count(name="counts")
    counts.suppress(until_time("1m"), name="held").changes().to("out")
    streams.table("rows", str, key=str, name="table")
    there = running(streams.plan(), topics={"lines": 2, "rows": 2, "out": 2}, filled={})
    said = [each for each in upgrade(streams.plan(), there).notes if "savepoint" in each]
    assert [each.partition(":")[0] for each in said] == ["store held", "store table"]
    assert "not kept by the key of a record" in said[0]


def test_an_input_that_is_missing_is_a_problem() -> None:
    left = {name: count for name, count in TOPICS.items() if name != "lines"}
    assert "input topic lines does not exist" in upgrade(app(), running(topics=left)).problems[0]


@pytest.mark.parametrize(
    ("before", "after", "fact"),
    [
        (app(), app(key=len), "keys were str and are int"),
    ],
)
def test_rows_of_another_meaning_are_refused(before: Plan, after: Plan, fact: str) -> None:
    found = upgrade(after, running(before))
    assert fates(found) == {"counts": "refused"}
    assert fact in found.problems[0]


def test_another_kind_of_windows_is_refused() -> None:
    def windows(size: str) -> Plan:
        streams = Streams("wc")
        grouped = streams.stream("lines", str).group_by(lambda line: line)
        grouped.window(tumbling(size)).count(name="counts")
        return streams.plan()

    found = upgrade(windows("2m"), running(windows("1m")))
    assert fates(found) == {"counts": "refused"}
    assert fates(upgrade(windows("1m"), running())) == {"counts": "refused"}, "rows without windows"


def test_another_type_of_values_is_told() -> None:
    found = upgrade(app(kind=float), running())
    assert fates(found) == {"counts": "survives"}
    assert "its values were int and are float now" in found.stores[0].why


def as_float(count: int) -> float:
    return float(count)


def test_a_later_version_is_migrated_where_it_is_not() -> None:
    later = app(kind=float, version=2, migrate={1: as_float})
    found = upgrade(later, running(versions={("counts", 0): StoreVersion(2)}))
    assert fates(found) == {"counts": "migrated"}
    assert "become version 2 in partition 1" in found.stores[0].why
    assert found.notes == ("store counts: its functions have changed: rows that are there stay",)
    assert "replace all of them" in upgrade(later, running(members=2)).notes[-1]
    empty = running(versions={("counts", 0): StoreVersion(2)}, filled={CHANGELOG: (0,)})
    assert fates(upgrade(later, empty)) == {"counts": "survives"}
    both = {("counts", at): StoreVersion(2) for at in range(2)}
    assert fates(upgrade(later, running(versions=both))) == {"counts": "survives"}
    assert fates(upgrade(app(), running(versions=both))) == {"counts": "refused"}
    missing = app(kind=float, version=2)
    assert "migrate[1] is missing" in upgrade(missing, running()).problems[0]


def test_what_keeps_values_of_a_migrated_store_is_told() -> None:
    streams = Streams("wc")
    grouped = streams.stream("lines", str).group_by(lambda line: line)
    counts = grouped.aggregate(
        float, lambda so_far, _: so_far, name="counts", type=float, version=2, migrate={1: as_float}
    )
    counts.suppress(until_time("1m"), name="held").changes().to("out")
    found = upgrade(streams.plan(), running())
    assert fates(found) == {"counts": "migrated", "held": "new"}
    assert [each for each in found.notes if "earlier form" in each] == [
        "store held: it may hold values of a migrated store in their earlier form: let the app "
        "process all before the upgrade, or let the new type read both"
    ]
    assert not any("earlier form" in each for each in upgrade(app(), running()).notes)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"is_exactly_once": False}, "processing.guarantee=exactly_once_v2"),
        ({"has_offsets": False}, "its group has no offsets"),
        (
            {"versions": {("counts", 0): StoreVersion(1, 2, b"k", "window")}},
            "a migration was cut short",
        ),
    ],
    ids=["at least once", "no offsets", "another layout"],
)
def test_what_a_start_would_not_migrate_is_refused(changed: dict[str, Any], said: str) -> None:
    later = app(kind=float, version=2, migrate={1: as_float})
    found = upgrade(later, running(**changed))
    assert fates(found) == {"counts": "refused"}
    assert said in found.problems[0]
    assert fates(upgrade(app(), running(is_exactly_once=False))) == {"counts": "survives"}


def test_rows_without_offsets_are_refused_with_exactly_once() -> None:
    lost = LostOffsets("counts", CHANGELOG, 0, 1, ("lines",), is_certain=True, is_whole=False)
    found = upgrade(app(), running(lost=[lost]))
    assert fates(found) == {"counts": "refused"}
    assert "its group has no offsets of lines-1" in found.problems[0]
    doubled = upgrade(app(), running(lost=[lost], is_exactly_once=False))
    assert (fates(doubled), doubled.problems) == ({"counts": "survives"}, ())
    assert "are processed twice" in doubled.stores[0].why
    unclear = upgrade(app(), running(lost=[replace(lost, is_certain=False)]))
    assert (fates(unclear), unclear.problems) == ({"counts": "survives"}, ())
    assert "if they come of records that are there now" in unclear.stores[0].why
    assert upgrade(app(), running(has_offsets=False)).problems == (), "no row is there"


def test_rows_on_this_machine_alone_are_refused_without_offsets_of_their_inputs() -> None:
    unlogged = app(logged=False)
    lost = LostOffsets("counts", None, 0, 1, ("lines",), is_certain=True, is_whole=True)
    there = running(unlogged, has_offsets=False, rows_here={"counts": 3}, lost=[lost])
    found = upgrade(unlogged, there)
    assert fates(found) == {"counts": "refused"}
    assert "moldau streams reset on each machine with rows of it" in found.problems[0]
    doubled = upgrade(unlogged, replace(there, is_exactly_once=False))
    assert (fates(doubled), doubled.problems) == ({"counts": "survives"}, ())
    assert "are processed twice" in doubled.stores[0].why


def test_a_table_of_an_input_needs_no_offsets() -> None:
    streams = Streams("wc")
    streams.table("lines", str, key=str, name="counts")
    found = upgrade(streams.plan(), running(streams.plan(), has_offsets=False))
    assert (fates(found)["counts"], found.problems) == ("survives", ())


def test_changed_functions_are_told() -> None:
    found = upgrade(app(key=lambda line: line + "!"), running())
    assert found.problems == ()
    assert [each.partition(":")[0] for each in found.notes] == [f"repartition {REPARTITION}"]


def test_the_versions_of_rows_are_read_back() -> None:
    versions = {
        ("a", 0): StoreVersion(2),
        ("b/c", 11): StoreVersion(1, 3, b"\x00key", "key-value"),
    }
    records: dict[bytes | None, bytes | None] = {
        version_key(*where): at.encoded() for where, at in versions.items()
    }
    assert versions_in({**records, b"topology": b"{}", None: b"", b"version/a/b": b""}) == versions


def test_details_are_kept_unless_an_earlier_app_starts_again() -> None:
    first, later = kept_topology(app()), kept_topology(app(version=2, migrate={1: abs}))
    kept = to_keep("wc", first, later, accepts_changes=False)
    assert kept == later
    assert kept is not None
    again = Topology.decoded(kept.encoded())
    assert again is not None
    assert again.details == later.details
    assert to_keep("wc", again, later, accepts_changes=False) is None
    assert to_keep("wc", again, first, accepts_changes=False) is None


def test_a_clock_may_have_filled_the_stores_beside_a_users_operator() -> None:
    class Ticks:
        def process(self, record: Any) -> None:
            """Nothing."""

    made = Streams("app")
    ticks = StateStore("ticks", key=str, value=int)
    made.stream("lines", str).process(lambda _: Ticks(), stores=[ticks], name="tick").to("out")
    assert made.plan().clocked_stores() == {"ticks"}
    assert app().clocked_stores() == set()
