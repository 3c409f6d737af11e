"""What a coordinator gets to know of an app, and what workers say of a streams group."""

from __future__ import annotations

import pytest

from moldau.client.group.descriptions import GroupDescription, MemberDescription, MemberTasks
from moldau.client.group.topology import (
    GroupTopology,
    SubtopologyDescription,
    TopicDescription,
    TopologyDescription,
)
from moldau.config import BadSettings
from moldau.streams import Streams
from moldau.streams.plan.layout import laid_out
from moldau.streams.plan.plan import Plan
from moldau.streams.worker.membership import NameWatch, described_topology, topology_epoch
from moldau.streams.worker.settings import app_settings


def orders() -> Plan:
    app = Streams("shop")
    customers = app.table("customers", str, key=str)
    orders = app.stream("orders", str, key=str)
    orders.join(customers, lambda order, name: f"{order} {name}").to("named")
    orders.group_by(lambda order: order).count(name="counts").changes().to("out")
    return app.plan()


def test_programs_are_subtopologies_with_their_topics() -> None:
    topics = {"customers": 3, "orders": 3, "named": 1, "out": 1}
    layout = laid_out(orders(), topics)
    first, second = described_topology(layout).subtopologies
    assert set(first.sources) == {"customers", "orders"}
    assert first.repartition_sinks == ("shop-counts-repartition",)
    assert first.changelogs == (TopicDescription("customers"),), "a table is its own changelog"
    assert first.copartitioned == (frozenset(("customers", "orders")),)
    assert second.sources == ()
    assert [each[:2] for each in second.repartition_sources] == [("shop-counts-repartition", 3)]
    assert [each.name for each in second.changelogs] == ["shop-counts-changelog"]
    assert dict(second.changelogs[0].configs)["cleanup.policy"] == "compact"
    assert second.inputs == ("shop-counts-repartition",)


def version(name: str, changelog: str = "") -> TopologyDescription:
    """A version of an app; a second one of its name differs in what a description lacks."""
    more = (TopicDescription(changelog),) if changelog else ()
    return TopologyDescription((SubtopologyDescription(name, ("in",), changelogs=more),))


def test_each_topology_of_an_app_keeps_its_epoch_in_the_group() -> None:
    old, new, newest = version("0"), version("0", "more"), version("0", "most")

    def in_group(epoch: int, topology: TopologyDescription) -> GroupTopology:
        return GroupTopology(epoch, topology.outline)

    first, kept = topology_epoch(old, (), None)
    assert (first, topology_epoch(old, kept, in_group(0, old))) == (0, (0, kept))
    second, kept = topology_epoch(new, kept, in_group(0, old))
    assert second == 1
    assert topology_epoch(old, kept, in_group(1, new)) == (0, kept), "it starts again"
    assert topology_epoch(new, kept, in_group(0, old)) == (1, kept), "after the way back"
    third, kept = topology_epoch(newest, kept, in_group(0, old))
    assert (third, [epoch for epoch, _ in kept]) == (2, [2, 1, 0])


def test_an_app_whose_epochs_are_not_kept_takes_that_of_its_group() -> None:
    old, new = version("0"), version("0", "more")
    assert topology_epoch(old, (), GroupTopology(3, old.outline))[0] == 3
    assert topology_epoch(new, (), GroupTopology(3, old.outline))[0] == 4


def test_of_two_versions_that_chose_one_epoch_the_one_that_the_group_lacks_moves_on() -> None:
    one, other = version("0", "one"), version("0", "other")
    _, kept = topology_epoch(other, ((0, "first"),), None)
    assert kept[0] == (1, other.digest)
    assert topology_epoch(other, kept, GroupTopology(1, one.outline))[0] == 2


def test_a_stateless_app_has_no_changelogs() -> None:
    app = Streams("copy")
    app.stream("in").to("out")
    layout = laid_out(app.plan(), {"in": 1, "out": 1})
    assert described_topology(layout).subtopologies == (SubtopologyDescription("0", ("in",)),)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"num.standby.replicas": 1}, ["num.standby.replicas"]),
        (
            {"group.protocol": "streams", "session.timeout.ms": 6000, "heartbeat.interval.ms": 300},
            ["session.timeout.ms", "heartbeat.interval.ms"],
        ),
        ({"group.protocol": "consumer"}, ["group.protocol"]),
    ],
)
def test_settings_that_do_not_fit_the_protocol_are_refused(
    given: dict[str, object], names: list[str]
) -> None:
    with pytest.raises(BadSettings) as caught:
        app_settings(given)
    assert [each.name for each in caught.value.problems] == names


def test_classic_is_the_default_and_standbys_come_with_streams() -> None:
    assert not app_settings({}).is_streams_group
    chosen = app_settings({"group.protocol": "streams", "num.standby.replicas": 2})
    assert chosen.is_streams_group


def shown(start: str) -> GroupDescription:
    tasks = MemberTasks(client_tags=(("moldau.start", start),))
    member = MemberDescription("m", None, "c", "/h", tasks=tasks)
    return GroupDescription("app", "Stable", "streams", "streams", "sticky", (member,))


def test_a_worker_is_superseded_by_a_process_that_joins_under_its_name() -> None:
    names = NameWatch("m", "mine")
    names.on_epoch(3)
    names.on_described(3, shown("mine"))
    names.on_epoch(3)
    assert not names.is_superseded
    names.on_epoch(4)
    assert names.wanted == 4
    names.on_described(4, shown("other"))
    names.on_epoch(4)
    assert names.is_superseded


def test_a_worker_that_has_joined_again_since_is_not_superseded() -> None:
    names = NameWatch("m", "mine")
    names.on_epoch(4)
    names.on_described(4, shown("other"))
    names.on_epoch(-1)
    assert not names.is_superseded
    names.on_epoch(6)
    assert (names.wanted, names.is_superseded) == (6, False)
    names.on_described(6, shown("mine"))
    names.on_epoch(6)
    assert not names.is_superseded
