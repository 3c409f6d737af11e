"""`moldau reassign` on three real nodes: a plan is made, carried out, checked and called off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.cli.operated import partitions_of
from tests.cli.operated import three as three
from tests.cli.shell import Shell
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real


def replicas_of(shell: Shell, topic: str) -> list[list[int]]:
    return [each["replicas"] for each in partitions_of(shell, topic)]


def test_partitions_move_by_a_plan(three: Cluster, tmp_path: Path) -> None:
    shell = Shell(three.bootstrap_servers)
    shell.good("topic", "create", "moving", "--partitions", "4", "--replicas", "1")
    shell.good("produce", "moving", source="".join(f"{number}\n" for number in range(500)))
    made = shell("reassign", "plan", "moving", "--brokers", "2,3", "--replicas", "2")
    assert made.code == 0
    plan = tmp_path / "plan.json"
    plan.write_text(made.out)
    assert all({*each["replicas"]} == {2, 3} for each in json.loads(made.out)["partitions"])
    done = shell("reassign", "execute", str(plan), "--throttle", "10000000", "--wait")
    assert done.code == 0, done
    assert "moved 4 of 4 partitions" in done.err
    assert '"topic":"moving"' in done.err  # how to go back
    eventually(lambda: [{*each} for each in replicas_of(shell, "moving")] == [{2, 3}] * 4)
    checked = shell.good("reassign", "verify", str(plan))
    assert [each[2] for each in checked.rows] == ["done"] * 4
    eventually(lambda: "throttled" not in shell.good("topic", "describe", "moving").out)
    assert len(shell.good("consume", "moving").out.splitlines()) == 500
    assert shell.good("reassign", "list").rows == []
    assert "moves of 0 partitions" in shell.good("reassign", "cancel", str(plan)).out


def test_a_move_that_takes_too_long_is_called_off(three: Cluster, tmp_path: Path) -> None:
    shell = Shell(three.bootstrap_servers)
    shell.good("topic", "create", "stuck", "--partitions", "1", "--replicas", "1")
    (old,) = replicas_of(shell, "stuck")
    new = next(each for each in three.node_ids if [each] != old)
    plan = tmp_path / "plan.json"
    row = {"topic": "stuck", "partition": 0, "replicas": [new]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    # Nobody copies at a byte a second what is more than ten seconds' worth.
    shell.good("produce", "stuck", source="x" * 100_000 + "\n")
    assert shell("reassign", "execute", str(plan), "--throttle", "1").code == 0
    again = shell("reassign", "execute", str(plan))
    assert (again.code, "--additional" in again.err) == (2, True)
    shell.good("reassign", "cancel", str(plan))
    eventually(lambda: replicas_of(shell, "stuck") == [old])
    assert shell("reassign", "verify", str(plan)).rows == [["stuck", "0", "elsewhere"]]


def test_plans_that_cannot_be_are_refused_in_a_line(three: Cluster, tmp_path: Path) -> None:
    shell = Shell(three.bootstrap_servers)
    plan = tmp_path / "plan.json"
    shell.good("topic", "create", "small", "--partitions", "1", "--replicas", "1")
    replicas_of(shell, "small")
    row = {"topic": "small", "partition": 99, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    told = "there is no partition 99 of small"
    assert told in shell("reassign", "execute", str(plan)).err
    assert "there is no broker 9" in shell("reassign", "plan", "--brokers", "9").err
    assert shell("reassign", "execute", str(tmp_path / "none")).code == 2


def test_preferred_replicas_lead_again(three: Cluster) -> None:
    shell = Shell(three.bootstrap_servers)
    shell.good("topic", "create", "led", "--partitions", "3", "--replicas", "3")
    replicas_of(shell, "led")
    three.stop(2)
    three.start(2)

    def is_led_by_another() -> bool:
        found = [each for each in partitions_of(shell, "led") if each["replicas"][0] == 2]
        return [each["leader"] != 2 for each in found] == [True]

    eventually(is_led_by_another)
    eventually(lambda: shell("leader", "elect", "led").code == 0)
    eventually(lambda: _leaders(shell) == [each[0] for each in replicas_of(shell, "led")])
    told = "every partition is led by its preferred replica\n"
    eventually(lambda: shell("leader", "elect").out == told)
    again = shell.good("leader", "elect", "led:0").rows
    assert again == [["led", "0", "no", "election", "needed"]]
    assert "led has no partition 9" in shell("leader", "elect", "led:9").err
    assert "name the partitions" in shell("leader", "elect", "--unclean").err


def _leaders(shell: Shell) -> list[int]:
    return [each["leader"] for each in partitions_of(shell, "led")]


def test_a_broker_is_drained(three: Cluster) -> None:
    shell = Shell(three.bootstrap_servers)
    for row in shell.good("topic", "list").rows:
        shell("topic", "delete", row[0])
    eventually(lambda: shell.good("topic", "list").rows == [])
    shell.good("topic", "create", "leaving", "--partitions", "3", "--replicas", "2")
    partitions_of(shell, "leaving")
    planned = shell.good("broker", "drain", "3", "--dry-run")
    assert '"topic":"leaving"' in planned.out
    refused = shell("broker", "drain", "3", "--to", "3")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    drained = shell("broker", "drain", "3")
    assert (drained.code, drained.out) == (0, "broker 3 has no replicas\n"), drained
    assert all(3 not in each for each in replicas_of(shell, "leaving"))


@pytest.mark.parametrize("action", ["drain", "decommission"])
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_broker_that_does_not_exist_is_refused(
    three: Cluster, action: str, options: tuple[str, ...]
) -> None:
    refused = Shell(three.bootstrap_servers)("broker", action, "9", *options)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "moldau: there is no broker 9; there are 1, 2, 3\n"


def test_the_controller_is_the_leader_of_the_quorum(three: Cluster) -> None:
    leader = Shell(three.bootstrap_servers).good("quorum", "status", "--json").json["leader"]
    for broker in three.broker_ids:  # each names itself in DescribeCluster
        shell = Shell(three.address_of(broker))
        assert shell.good("cluster", "describe", "--json").json["controller"] == leader
        told = shell.good("cluster", "describe").out.splitlines()
        assert told[1] == f"controller {leader}, the leader of the metadata quorum"
        assert [line.split()[0] for line in told if line.endswith("yes")] == [str(leader)]
        (found,) = map(
            json.loads, shell.good("cluster", "top", "--times", "1", "--json").out.splitlines()
        )
        assert [each["broker"] for each in found if each["is_controller"]] == [leader]


def test_brokers_are_watched(three: Cluster) -> None:
    shell = Shell(three.bootstrap_servers)
    shell.good("topic", "create", "watched", "--partitions", "3", "--replicas", "3")
    partitions_of(shell, "watched")
    lines = shell.good("cluster", "top", "--times", "2", "--every", "1").out.splitlines()
    assert len(lines) == 6
    assert [line.split()[0].rstrip("*") for line in lines[:3]] == [
        "broker=1",
        "broker=2",
        "broker=3",
    ]
    assert "bytes/s=-" in lines[0]
    assert "bytes/s=0.0MiB" in lines[3]
    (found,) = map(
        json.loads, shell.good("cluster", "top", "--times", "1", "--json").out.splitlines()
    )
    assert sum(each["is_controller"] for each in found) == 1
    assert all(each["replicas"] >= 3 for each in found)
