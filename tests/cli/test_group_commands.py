"""`moldau group` against Apache Kafka and against moldau, beside Kafka's own tool."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.application import run
from moldau.cli.command import Context
from moldau.client import Admin
from moldau.plugins import installed_plugins
from tests.cli.groups import Cluster, fill, member
from tests.cli.groups import cluster as cluster
from tests.cli.groups import shell as shell
from tests.cli.processes import line_of, running
from tests.cli.shell import Shell, Terminal
from tests.conformance.broker import moldau as moldau
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import kafka_broker as kafka_broker

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def offsets(shell: Shell, group: str) -> dict[tuple[str, int], int | None]:
    """What a group has committed, by topic and partition."""
    (found,) = shell.good("group", "describe", group, "--json").json
    return {(each["topic"], each["partition"]): each["committed"] for each in found["offsets"]}


@pytest.mark.real
@PROTOCOLS
def test_a_group_from_its_first_member_to_its_end(
    shell: Shell, cluster: Cluster, protocol: str
) -> None:
    topic = f"life-{protocol}"
    group = f"{topic}-group"
    fill(shell, topic, [5, 0, 7])
    reset = ("group", "reset", group, "--to-earliest", "--execute")
    with member(cluster, group, topic, {"group.protocol": protocol}) as consumer:
        assert [group, protocol, "consumer", "Stable"] in shell.good("group", "list").rows
        (described,) = shell.good("group", "describe", group, "--json").json
        (who,) = described["members"]
        assert (described["state"], described["lag"]) == ("Stable", 0)
        assert who["member_id"] == consumer.client.member_id
        assert [each["partition"] for each in who["assignment"]] == [0, 1, 2]
        assert {each["member_id"] for each in described["offsets"]} == {who["member_id"]}
        refused = shell(*reset)
        assert refused.code == 1
        assert refused.err == f"moldau: group {group} has 1 member: stop them first\n"
        assert shell("group", "delete", group).err.startswith("moldau: NON_EMPTY_GROUP")
        assert offsets(shell, group) == {(topic, 0): 5, (topic, 1): 0, (topic, 2): 7}
    planned = shell.good(*reset[:-1])
    assert planned.out.endswith("dry run: nothing was changed; --execute does it\n")
    assert offsets(shell, group) == {(topic, 0): 5, (topic, 1): 0, (topic, 2): 7}
    assert shell.good(*reset).rows == planned.rows[:-1]
    assert offsets(shell, group) == {(topic, 0): 0, (topic, 1): 0, (topic, 2): 0}
    assert shell.good("group", "delete", group, "--topic", f"{topic}:0,1").out == (
        f"deleted {topic}-0 of {group}\ndeleted {topic}-1 of {group}\n"
    )
    assert offsets(shell, group) == {(topic, 2): 0}
    assert shell.good("group", "delete", group).out == f"deleted {group}\n"
    gone = shell("group", "describe", group)
    assert (gone.code, gone.out) == (1, "")
    assert gone.err.startswith("moldau: GROUP_ID_NOT_FOUND")
    assert group in gone.err
    assert gone.err.count("\n") == 1


@pytest.mark.real
def test_a_dry_run_tells_what_would_be_deleted(shell: Shell) -> None:
    """Of one topic only what was committed of it, and nothing of groups that have not read it."""
    fill(shell, "dry-orders", [1, 1])
    fill(shell, "dry-bills", [1])
    for group, topics in (("dry-1", ("dry-orders", "dry-bills")), ("dry-2", ("dry-bills",))):
        scope = [word for topic in topics for word in ("--topic", topic)]
        shell.good("group", "reset", group, "--to-latest", *scope, "--execute")
    words = ("group", "delete", "--all", "--topic", "dry-orders:1")
    told = shell.good(*words).out.splitlines()
    assert told == [
        "would delete dry-orders-1 of dry-1",
        "dry run: nothing was changed; --execute does it",
    ]
    one = {"group": "dry-1", "topic": "dry-orders", "partition": 1}
    dry = shell.good(*words, "--json").json
    assert dry == {"deleted": [], "failed": [], "would_delete": [one]}
    assert shell.good(*words, "--execute").out == "deleted dry-orders-1 of dry-1\n"
    assert offsets(shell, "dry-1") == {("dry-orders", 0): 1, ("dry-bills", 0): 1}
    assert offsets(shell, "dry-2") == {("dry-bills", 0): 1}
    assert shell.good("group", "delete", "--all", "--json").json["failed"] == []
    done = shell("group", "delete", "dry-1", "dry-never", "--json")
    assert (done.code, done.json["deleted"]) == (1, ["dry-1"])
    (failed,) = done.json["failed"]
    assert failed["group"] == "dry-never"
    assert failed["error"].startswith("GROUP_ID_NOT_FOUND")


@pytest.mark.real
def test_a_group_that_goes_meanwhile_costs_the_others_nothing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ["meanwhile-1", "meanwhile-2", "meanwhile-3"]
    fill(shell, "goes-meanwhile", [1, 1])
    shell.good("group", "reset", *groups, "--topic", "goes-meanwhile", "--to-latest", "--execute")
    forget = Admin.delete_group_offsets

    async def late(client: Admin, group: str, partitions: Any) -> Any:
        if group == groups[1]:
            await client.delete_group(group)
        return await forget(client, group, partitions)

    monkeypatch.setattr(Admin, "delete_group_offsets", late)
    done = shell("group", "delete", *groups, "--topic", "goes-meanwhile", "--json")
    assert done.code == 1
    assert done.err.startswith("moldau: GROUP_ID_NOT_FOUND")
    assert done.err.count("\n") == 1
    failed = [(each["group"], each["partition"]) for each in done.json["failed"]]
    assert failed == [(groups[1], 0), (groups[1], 1)]
    assert all("GROUP_ID_NOT_FOUND" in each["error"] for each in done.json["failed"])
    assert [each["group"] for each in done.json["deleted"]] == [
        *(groups[0], groups[0]),
        *(groups[2], groups[2]),
    ]


@pytest.mark.real
def test_lists_are_filtered(shell: Shell, cluster: Cluster) -> None:
    fill(shell, "filtered", [1])
    shell.good("group", "reset", "filtered-a", "--topic", "filtered", "--to-latest", "--execute")
    with member(cluster, "filtered-b", "filtered", {"group.protocol": "consumer"}):

        def listed(*words: str) -> list[str]:
            found = shell.good("group", "list", "filtered-*", "--json", *words).json
            return [each["group"] for each in found]

        assert listed() == ["filtered-a", "filtered-b"]
        assert listed("--state", "stable,EMPTY") == ["filtered-a", "filtered-b"]
        assert listed("--state", "Empty") == ["filtered-a"]
        assert listed("--type", "Consumer") == ["filtered-b"]
        assert listed("--type", "share") == []
        every = {each["group"] for each in shell.good("group", "list", "--json").json}
        assert {"filtered-a", "filtered-b"} <= every


@pytest.mark.real
def test_offsets_move_to_another_group_and_to_another_topic(shell: Shell, tmp_path: Path) -> None:
    for topic in ("moves", "mirror"):
        fill(shell, topic, [9, 9])
    given = tmp_path / "offsets.csv"
    given.write_text("moves,0,4\nmoves,1,9\n", encoding="utf-8")
    shell.good("group", "reset", "mover", "--from-file", str(given), "--execute")
    planned = shell.good("group", "move", "mover", "--to", "heir")
    assert planned.rows[:2] == [
        ["moves-0", "4", "moves-0", "-", "4"],
        ["moves-1", "9", "moves-1", "-", "9"],
    ]
    assert "heir" not in shell.good("group", "list").out
    copied = ("group", "move", "mover", "--to", "heir", "--topic", "moves:1", "--keep", "--execute")
    shell.good(*copied)
    assert offsets(shell, "heir") == {("moves", 1): 9}
    assert offsets(shell, "mover") == {("moves", 0): 4, ("moves", 1): 9}
    done = shell.good("group", "move", "mover", "--to", "heir", "--execute", "--json").json
    assert done["executed"] is True
    assert [each["before"] for each in done["offsets"]] == [None, 9]
    assert offsets(shell, "heir") == {("moves", 0): 4, ("moves", 1): 9}
    assert shell("group", "describe", "mover").err.startswith("moldau: GROUP_ID_NOT_FOUND")
    renamed = ("group", "move", "heir", "--rename", "moves=mirror")
    shell.good(*renamed, "--topic", "moves:0", "--execute")
    assert offsets(shell, "heir") == {("mirror", 0): 4, ("moves", 1): 9}
    lost = shell("group", "move", "heir", "--rename", "mirror=nowhere", "--execute")
    assert (lost.code, lost.err) == (
        1,
        "moldau: nowhere-0: there is no such partition, or it has no leader\n",
    )
    misspelled = ("group", "move", "heir", "--to", "third", "--rename", "miror=other", "--execute")
    assert "nothing would move of miror, which --rename names" in shell(*misspelled).err
    left_out = ("--rename", "mirror=moves", "--topic", "moves", "--execute")
    assert "of mirror, which --rename" in shell("group", "move", "heir", "--to", "x", *left_out).err
    assert offsets(shell, "heir") == {("mirror", 0): 4, ("moves", 1): 9}


@pytest.mark.real
def test_a_copy_may_be_made_while_the_old_group_works_but_no_move(
    shell: Shell, cluster: Cluster
) -> None:
    fill(shell, "busy", [3])
    with member(cluster, "busy-group", "busy"):
        refused = shell("group", "move", "busy-group", "--to", "busy-copy", "--execute")
        assert (refused.code, refused.err) == (
            1,
            "moldau: group busy-group has 1 member: stop them first\n",
        )
        assert "busy-copy" not in shell.good("group", "list").out
        shell.good("group", "move", "busy-group", "--to", "busy-copy", "--keep", "--execute")
        assert offsets(shell, "busy-copy") == {("busy", 0): 3}
        taken = shell("group", "move", "busy-copy", "--to", "busy-group", "--execute")
        assert "busy-group has 1 member" in taken.err


@pytest.mark.real
def test_lag_is_shown_live(shell: Shell, cluster: Cluster) -> None:
    fill(shell, "live", [4])
    watch = ("group", "describe", "live-group", "--watch", "--every", "0.05", "--times", "2")
    with member(cluster, "live-group", "live"):
        shell.good("produce", "live", source="more\n")
        first, second = shell.good(*watch).out.splitlines()
        assert first.split()[1:] == ["live-group", "Stable", "members=1", "lag=1"]
        assert second.split()[1:] == [*first.split()[1:], "read=0/s", "written=0/s"]
        documents = [json.loads(line) for line in shell.good(*watch, "--json").out.splitlines()]
        assert [each["lag"] for each in documents] == [1, 1]
        assert [each["written_per_second"] for each in documents] == [None, 0.0]
        terminal = Terminal()
        context = Context(terminal, io.StringIO(), shell.environment, installed_plugins)
        assert run(watch, context) == 0
        screen = terminal.getvalue()
        assert "live-group: Stable" in screen
        assert "READ/S" in screen
    with running(cluster, *watch[:-2]) as process:
        assert "live-group Empty members=0 lag=1" in line_of(process.stdout)
        process.send_signal(signal.SIGINT)
    gone = shell("group", "describe", "no-such-group", *watch[3:])
    assert gone.err.startswith("moldau: GROUP_ID_NOT_FOUND")


@pytest.mark.real
def test_a_topic_that_is_gone_does_not_hide_the_others(shell: Shell, cluster: Cluster) -> None:
    fill(shell, "stays", [2])
    fill(shell, "goes", [2])
    both = ("--topic", "stays", "--topic", "goes", "--to-latest", "--execute")
    shell.good("group", "reset", "widow", *both)
    with member(cluster, "widow-member", "goes"):
        shell.good("topic", "delete", "goes")
        (described,) = shell.good("group", "describe", "widow-member", "--json").json
    assert described["state"]
    # Kafka forgets what was committed of a topic that is deleted, a moment later.
    assert offsets(shell, "widow")["stays", 0] == 2
    steps = shell.good("group", "reset", "widow", "--to-earliest", "--execute", "--json").json
    by_topic = {each["topic"]: each["after"] for each in steps["offsets"]}
    assert by_topic["stays"] == 0
    assert by_topic.get("goes") is None
    unknown = shell("group", "reset", "widow", "--topic", "goes", "--to-earliest")
    assert unknown.err.startswith("moldau: UNKNOWN_TOPIC_OR_PARTITION")
    assert "goes" in unknown.err
    nobody = shell("group", "reset", "nobody", "widow", "--to-latest", "--execute", "--json")
    assert nobody.code == 1
    assert "group nobody has committed nothing" in nobody.err
    told = {each["group"]: (each["executed"], each["error"]) for each in nobody.json["groups"]}
    why = "group nobody has committed nothing: name a --topic"
    assert told == {"nobody": (False, why), "widow": (True, None)}
    assert offsets(shell, "widow")["stays", 0] == 2


# Beside kafka-consumer-groups.sh


def _java(cluster: Cluster, commands: list[list[str]]) -> list[list[list[str]]]:
    """The words of each line that Kafka's tool prints, a list for each command."""
    lines = [
        "\t".join(["--bootstrap-server", cluster.bootstrap_servers, *each]) for each in commands
    ]
    source = Path(__file__).with_name("ConsumerGroups.java")
    answers = fetch_or_skip().run_source(source, lines)
    return [
        [line.split() for line in answer.replace("\\n", "\n").splitlines() if line.strip()]
        for answer in answers
    ]


RESETS = [
    ["--to-earliest"],
    ["--to-latest"],
    ["--to-current"],
    ["--to-offset", "6"],
    ["--to-offset", "600"],
    ["--shift-by", "-3"],
    ["--shift-by", "300"],
    ["--to-datetime", "2020-01-01T00:00:00.000"],
    ["--to-datetime", "2199-01-01T00:00:00.000"],
    ["--by-duration", "PT1H"],
    ["--by-duration", "PT0S"],
]


@pytest.mark.real
def test_kafkas_tool_sees_the_same_groups(shell: Shell, cluster: Cluster) -> None:
    fill(shell, "seen", [5, 0, 12])
    groups = ["seen-classic", "seen-consumer"]
    asked = [["--list", "--state"], ["--list", "--type"], ["--list", "--state", "Stable"]]
    for group in groups:
        describe = ["--describe", "--group", group]
        asked += [describe, [*describe, "--members", "--verbose"], [*describe, "--state"]]
    with (
        member(cluster, groups[0], "seen"),
        member(cluster, groups[1], "seen", {"group.protocol": "consumer"}),
    ):
        shell.good("produce", "seen", "--partition", "2", source="a\nb\n")
        theirs = _java(cluster, asked)
        ours = shell.good("group", "describe", *groups, "--json").json
        rows = shell.good("group", "describe", *groups, "--offsets").rows
        listed = shell.good("group", "list", "seen-*", "--json").json
        stable = shell.good("group", "list", "seen-*", "--state", "Stable", "--json").json
    assert _pairs(theirs[0]) == {(each["group"], each["state"]) for each in listed}
    assert _pairs(theirs[1]) == {(each["group"], each["type"].capitalize()) for each in listed}
    assert _pairs(theirs[2]) == {(each["group"], each["state"]) for each in stable}
    for each, offsets_told, members_told, state_told in zip(
        ours, theirs[3::3], theirs[4::3], theirs[5::3], strict=True
    ):
        assert offsets_told[1:] == [row for row in rows if row[0] == each["group"]]
        assert [row[5] for row in offsets_told[1:]] == ["0", "0", "2"]
        _same_members(members_told[1], each)
        _same_state(state_told, each)


def _same_state(told: list[list[str]], ours: dict[str, Any]) -> None:
    state = dict(zip(_columns(told[0]), _cells(told[1]), strict=False))
    assert state["GROUP"] == ours["group"]
    assert state["STATE"] == ours["state"]
    assert state["ASSIGNMENT-STRATEGY"] == ours["assignor"]
    assert state["#MEMBERS"] == "1"
    assert state["COORDINATOR"] == f"{ours['coordinator']['host']}:{ours['coordinator']['port']}"


def _columns(head: list[str]) -> list[str]:
    return [each for each in head if each != "(ID)"]


def _cells(row: list[str]) -> list[str]:
    """Without the coordinator's id, which stands in brackets in a word of its own."""
    return [each for each in row if not each.startswith("(")]


def _pairs(table: list[list[str]]) -> set[tuple[str, str]]:
    return {(row[0], row[1]) for row in table if row[0].startswith("seen-")}


def _same_members(row: list[str], ours: dict[str, Any]) -> None:
    (who,) = ours["members"]
    assert row[:5] == [
        ours["group"],
        who["member_id"],
        who["host"],
        who["client_id"],
        str(len(who["assignment"])),
    ]
    numbers = ",".join(str(each["partition"]) for each in who["assignment"])
    assert f"{who['assignment'][0]['topic']}:{numbers}" in row


@pytest.mark.real
def test_kafkas_tool_plans_the_same_resets(shell: Shell, cluster: Cluster, tmp_path: Path) -> None:
    """And each does the same with a file that the other has exported."""
    fill(shell, "reset", [5, 0, 12])
    shell.good("topic", "trim", "reset", "--partition", "2", "--before", "2")
    group = "reset-group"
    reset = ["group", "reset", group]
    shell.good(*reset, "--topic", "reset:0,2", "--to-offset", "4", "--execute")
    cases = [(rule, ["--all-topics"]) for rule in RESETS]
    cases += [(rule, ["--topic", "reset"]) for rule in RESETS if rule[0] != "--shift-by"]
    cases += [(["--to-earliest"], ["--topic", "reset:2"])]
    mine = [
        shell.good(*reset, *rule, *([] if scope == ["--all-topics"] else scope), "--export").out
        for rule, scope in cases
    ]
    exported = tmp_path / "offsets.csv"
    exported.write_text(shell.good(*reset, "--shift-by", "1", "--export").out, encoding="utf-8")
    begin = ["--reset-offsets", "--group", group]
    asked = [[*begin, *rule, *scope, "--export"] for rule, scope in cases]
    *theirs, done = _java(cluster, [*asked, [*begin, "--from-file", str(exported), "--execute"]])
    for case, ours, told in zip(cases, mine, theirs, strict=True):
        rows = [line[0] for line in told if line[0] != "Warn:"]
        assert sorted(ours.split()) == sorted(rows), case
    assert sorted(done[1:]) == [[group, "reset", "0", "5"], [group, "reset", "2", "5"]]
    assert offsets(shell, group) == {("reset", 0): 5, ("reset", 2): 5}
    exported.write_text("\n".join(line[0] for line in theirs[0]), encoding="utf-8")
    shell.good(*reset, "--from-file", str(exported), "--execute")
    assert offsets(shell, group) == {("reset", 0): 0, ("reset", 2): 2}


# Without a cluster


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("list", "--state", "sleepy"), "'sleepy' is no state of a group: Prep"),
        (("list", "--type", "old"), "'old' is no type of a group: classic"),
        (("describe",), "name groups, or give --all"),
        (("describe", "g", "--all"), "name groups, or give --all"),
        (("describe", "g", "--watch", "--every", "0"), "--every"),
        (("describe", "g", "--times", "3"), "--watch"),
        (("describe", "g", "--every", "3"), "--watch"),
        (("describe", "g", "--watch", "--times", "0"), "--times"),
        (("describe", "g", "--watch", "--members"), "--watch shows lag alone"),
        (("describe", "g", "--watch", "--state"), "--watch shows lag alone"),
        (("describe", "g", "--watch", "-v"), "--watch shows lag alone"),
        (("reset", "g"), "--to-earliest"),
        (("reset", "--to-earliest"), "name a group"),
        (("reset", "g", "--all", "--to-earliest"), "name groups, or give --all"),
        (("reset", "g", "--to-offset", "-1"), "negative"),
        (("reset", "g", "--to-earliest", "--export", "--json"), "--json"),
        (("reset", "g", "--from-file", "-", "--topic", "t"), "--topic"),
        (("reset", "g", "--to-earliest", "--topic", "t:x"), "partition of 't:x'"),
        (("reset", "g", "--to-earliest", "--to-latest"), "not allowed with"),
        (("delete",), "name groups"),
        (("move", "g"), "nothing would move"),
        (("move", "g", "--to", "g"), "nothing would move"),
        (("move", "g", "--rename", "a"), "NAME=VALUE"),
        (("move", "g", "--rename", "a=b", "--topic", "c"), "nothing of c would move"),
    ],
)
def test_mistakes_are_told_without_a_cluster(words: tuple[str, ...], told: str) -> None:
    done = Shell("127.0.0.1:1")("group", *words)
    assert done.code == 2, done
    assert told in done.err
