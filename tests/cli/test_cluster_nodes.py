"""`moldau cluster up` while nodes die, are stopped, and when it is started again otherwise."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.runtime.node_processes import MAIN, NodeProcess, free_ports_in_row
from moldau.testing import Cluster, ClusterFailed
from tests.cli.running_cluster import WITHIN_S, pid_of, running
from tests.cli.shell import Shell
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real


@pytest.mark.deep
def test_a_killed_node_comes_back_and_a_stopped_one_by_hand(tmp_path: Path) -> None:
    data, port = tmp_path / "cluster", free_ports_in_row(4)
    with running(data, port, 2) as up:
        os.kill(pid_of(data, 2), signal.SIGKILL)
        log = f"{data}/node-2.log"
        told = f"node 2 was killed by SIGKILL, is started again in 1 s; see {log}"
        assert up.line(WITHIN_S) == told
        assert up.line(WITHIN_S) == f"node 2 is up again at localhost:{port + 1}"
        os.kill(pid_of(data, 2), signal.SIGTERM)
        line = up.line(WITHIN_S)
        assert line is not None
        said, _, command = line.rpartition(": ")
        assert said.startswith("node 2 was stopped, and stays so")
        program, *words = shlex.split(command)
        assert program == "moldau"
        by_hand = NodeProcess(words, str(tmp_path / "by-hand.log"), is_leashed=True)
        try:
            first = by_hand.line(WITHIN_S)
            assert first is not None, (tmp_path / "by-hand.log").read_text()
            assert " is up" in first
            shell = Shell(f"localhost:{port}")
            eventually(
                lambda: (
                    [
                        each["id"]
                        for each in shell.good("cluster", "describe", "--json").json["brokers"]
                    ]
                    == [1, 2]
                )
            )
        finally:
            by_hand.terminate()
            assert by_hand.wait(WITHIN_S) == 0


@pytest.mark.deep
def test_no_node_outlives_a_killed_command(tmp_path: Path) -> None:
    data, port = tmp_path / "cluster", free_ports_in_row(2)
    with running(data, port, 1) as up:
        node = pid_of(data, 1)
        up.kill()
        eventually(lambda: not Path(f"/proc/{node}").exists())


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (("--nodes", "5"), "with --nodes 2, or"),
        (("--nodes", "1"), "with --nodes 2, or"),
        (("--nodes", "2", "--controllers", "2"), "with --nodes 2, or"),
    ],
)
def test_another_quorum_on_the_same_data_is_refused(
    tmp_path: Path, options: tuple[str, ...], advice: str
) -> None:
    format_nodes(tmp_path, 1, 2)
    port = free_ports_in_row(10)
    ended = subprocess.run(  # noqa: S603 (our own command)
        [
            *(sys.executable, "-c", MAIN, "cluster", "up", "--data", str(tmp_path)),
            *("--port", str(port), *options),
        ],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert "the voters of this cluster's metadata quorum are the nodes 1, 2," in line
    assert advice in line


def test_brokers_may_come_and_not_be_left_out_where_controllers_stay(tmp_path: Path) -> None:
    format_nodes(tmp_path, 1, 2, 3, 101)
    with pytest.raises(ClusterFailed, match="there are data of broker 3, which would be left out"):
        Cluster(2, controllers=1, directory=str(tmp_path)).prepare()
    with pytest.raises(ClusterFailed, match="--nodes 3 --controllers 1"):
        Cluster(3, controllers=3, directory=str(tmp_path)).prepare()
    Cluster(3, controllers=1, directory=str(tmp_path)).prepare()
    Cluster(4, controllers=1, directory=str(tmp_path)).prepare()


def test_a_node_whose_disk_was_lost_is_still_one_of_the_voters(tmp_path: Path) -> None:
    format_nodes(tmp_path, 1, 2)
    (tmp_path / "node-3.properties").touch()  # written when it was up
    Cluster(3, directory=str(tmp_path)).prepare()
    with pytest.raises(ClusterFailed, match="--nodes 3"):
        Cluster(2, directory=str(tmp_path)).prepare()


@pytest.mark.deep
def test_dead_nodes_hold_up_nothing(tmp_path: Path) -> None:
    with Cluster(brokers=2, controllers=1) as cluster:
        shell = Shell(cluster.bootstrap_servers)

        def described() -> tuple[list[int], list[int]]:
            told = shell.good("cluster", "describe", "--json").json
            return ids(told["brokers"]), ids(told["fenced"])

        eventually(lambda: described() == ([1, 2], []))
        cluster.kill(2)
        eventually(lambda: described() == ([1], [2]))
        assert [row[3] for row in shell.good("cluster", "describe").rows[2:4]] == ["up", "down"]
        assert looks(shell, 1) == [{1: True, 2: False}]
        cluster.pause(101)
        assert looks(shell, 3) == [{1: True, 2: False}] * 3
        soon = ("--set", "default.api.timeout.ms=3000")
        for words in (("quorum", "status"), ("reassign", "plan"), ("broker", "drain", "1")):
            refused = shell(*words, *soon)
            assert (refused.code, refused.out) == (1, "")
            (line,) = refused.err.splitlines()
            assert line.startswith("moldau: the metadata quorum does not answer: it has a leader")


def ids(brokers: list[dict[str, int]]) -> list[int]:
    return [each["id"] for each in brokers]


def looks(shell: Shell, times: int) -> list[dict[int, bool]]:
    """Which brokers are up, at each look of `cluster top`."""
    done = shell("cluster", "top", "--times", str(times), "--every", "1", "--json")
    assert (done.code, done.err) == (0, "")
    found = map(json.loads, done.out.splitlines())
    return [{each["broker"]: each["is_up"] for each in rows} for rows in found]


@pytest.mark.deep
def test_a_voter_that_is_decommissioned_is_told_to_count_still() -> None:
    with Cluster(brokers=3) as cluster:
        shell = Shell(cluster.bootstrap_servers)
        leaving = shell.good("quorum", "status", "--json").json["leader"]
        cluster.stop(leaving)
        left = ",".join(cluster.address_of(each) for each in cluster.broker_ids if each != leaving)
        shell = Shell(left)
        eventually(lambda: shell("quorum", "status", "--json").json["leader"] != leaving)
        rows = {row[0]: row[2:] for row in shell.good("quorum", "status").rows[1:]}
        assert rows[str(leaving)] == ["-", "-", "never", "from", "this", "leader"]
        assert [row[2] for row in rows.values()].count("leads") == 1
        done = shell("broker", "decommission", str(leaving))
        assert (done.code, done.out) == (
            0,
            f"broker {leaving} has no replicas\nbroker {leaving} is forgotten\n",
        )
        assert f"node {leaving} still counts as one of 3 voters of the metadata quorum" in done.err
        refused = shell("broker", "decommission", str(leaving))
        assert (refused.code, f"there is no broker {leaving};" in refused.err) == (2, True)


def format_nodes(directory: Path, *node_ids: int) -> None:
    """As after a start with these nodes."""
    for node_id in node_ids:
        words = ["storage", "format", "--cluster-id", "vX1bQ2cnRUyKiLqpGRz8WQ", "--standalone"]
        words += ["--data", str(directory / f"node-{node_id}"), "--set", f"node.id={node_id}"]
        done = Shell("")(*words)
        assert done.code == 0, done
