"""`moldau cluster up`: several real nodes by one command, a line each, stopped together."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.runtime.node_processes import MAIN, free_ports_in_row
from moldau.testing import Cluster
from tests.cli.cluster_logs import ends_of_logs
from tests.cli.operated import partitions_of
from tests.cli.shell import Shell
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real

NODES = 3


def test_three_nodes_come_up_and_stop_together(tmp_path: Path) -> None:
    port = free_ports_in_row(2 * NODES)
    data = tmp_path / "cluster"
    words = ["cluster", "up", "--nodes", str(NODES), "--port", str(port), "--data", str(data)]
    with subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(NODES + 2)]
            assert lines[-1], f"it did not come up: {lines}{ends_of_logs(data)}"
            for number, line in enumerate(lines[:NODES], start=1):
                assert line.startswith(f"node {number} is up at localhost:{port + number - 1}, ")
            assert lines[-1] == "Ctrl-C stops all.\n"
            described = subprocess.run(  # noqa: S603 (our own command)
                [
                    *(sys.executable, "-c", MAIN, "cluster", "quorum"),
                    *("--bootstrap", f"localhost:{port}"),
                ],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert described.stdout.count("voter") == NODES
            os.kill(process.pid, signal.SIGTERM)
            assert "stops all nodes" in process.stdout.read()
            assert process.wait(60) == 0
        finally:
            process.kill()
    for number in range(1, NODES + 1):
        log = (data / f"node-{number}.log").read_text(encoding="utf-8")
        assert "broker is closed" in log
        assert " ERROR " not in log


def test_a_node_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    port = free_ports_in_row(2 * NODES)
    words = ["cluster", "up", "--nodes", str(NODES), "--port", str(port), "--data", str(tmp_path)]
    with socket.create_server(("127.0.0.1", port + 1)):
        ended = subprocess.run(  # noqa: S603 (our own command)
            [sys.executable, "-c", MAIN, *words],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "node 2: it ended with code 1" in line
    assert "cannot listen" in line
    assert str(port + 1) in line


def test_a_cluster_without_a_directory_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    code = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-c", MAIN, "cluster", "up"], check=False, timeout=60
    ).returncode
    assert code == 2
    assert "--data" in capfd.readouterr().err


def test_controllers_of_their_own_keep_the_metadata_of_brokers(tmp_path: Path) -> None:
    with Cluster(brokers=2, controllers=3) as cluster:
        shell = Shell(cluster.bootstrap_servers)
        shell.good("topic", "create", "t", "--partitions", "2", "--replicas", "2")
        assert len(partitions_of(shell, "t")) == 2
        quorum = shell.good("cluster", "quorum", "--json").json
        roles = {each["id"]: each["role"] for each in quorum["replicas"]}
        assert roles == {1: "observer", 2: "observer", **dict.fromkeys((101, 102, 103), "voter")}
        described = shell.good("cluster", "describe", "--json").json
        assert [each["id"] for each in described["brokers"]] == [1, 2]
        leads = (described["controller"], described["controller_is"])
        assert leads == (quorum["leader"], "leader of the metadata quorum")
        cluster.kill(quorum["leader"])
        create = ("topic", "create", "after", "--partitions", "1", "--replicas", "2")
        describe = ("topic", "describe", "after")
        eventually(lambda: shell(*create).code == 0 or shell(*describe).code == 0)
        assert len(partitions_of(shell, "after")) == 1
        shell.good("produce", "after", source="one\n")
        assert shell.good("consume", "after").out == "one\n"
        cluster.stop(1)
        log = Path(cluster.log_path_of(1)).read_text(encoding="utf-8")
        assert "broker is closed" in log
        assert " ERROR " not in log


@pytest.mark.deep
def test_a_cluster_whose_controllers_are_silent_is_still_described() -> None:
    with Cluster(brokers=1, controllers=1) as cluster:
        shell = Shell(cluster.bootstrap_servers)
        eventually(lambda: shell.good("cluster", "describe", "--json").json["brokers"])
        cluster.pause(101)
        told = shell.good("cluster", "describe").out.splitlines()
        assert told[1] == (
            "controller unknown: the quorum tells no leader; broker 1 passes requests on to it"
        )
        facts = shell.good("cluster", "describe", "--json").json
        kind = "a broker that passes requests on to the controller"
        assert (facts["controller"], facts["controller_is"]) == (1, kind)


def test_nodes_have_racks_ids_addresses_and_settings_of_their_own(tmp_path: Path) -> None:
    port = free_ports_in_row(4)
    words = [
        *("cluster", "up", "--nodes", "2", "--port", str(port), "--data", str(tmp_path / "c")),
        *("--first-id", "5", "--rack", "north", "--rack", "south", "--advertise", "127.0.0.1"),
        *("--set-node", "6:num.partitions=4"),
    ]
    with subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(4)]
            assert lines[-1] == "Ctrl-C stops all.\n", ends_of_logs(tmp_path / "c")
            shell = Shell(f"localhost:{port}")
            described = shell.good("cluster", "describe", "--json").json
            assert [(each["id"], each["rack"], each["host"]) for each in described["brokers"]] == [
                (5, "north", "127.0.0.1"),
                (6, "south", "127.0.0.1"),
            ]
            for node, value in (("5", "1"), ("6", "4")):
                (row,) = shell.good("config", "describe", "broker", node, "num.partitions").rows
                assert row[1] == value
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--set-node", "9:num.partitions=1"), "there is no such node; there are 1, 2, 3"),
        (("--set-node", "num.partitions=1"), "give a node, a colon and a setting"),
        (("--first-id", "99"), "--first-id"),
    ],
)
def test_a_wrong_node_is_refused(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = Shell("localhost:1")("cluster", "up", "--data", str(tmp_path / "c"), *words)
    assert done.code == 2
    assert told in done.err
    assert not (tmp_path / "c").exists()


def locked(data: Path, node_id: int) -> int:
    """Hold the lock of a node's directory, as its process does, until the file is closed."""
    directory = data / f"node-{node_id}"
    directory.mkdir(parents=True)
    held = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


def test_nodes_that_still_close_are_named_and_waited_for(tmp_path: Path) -> None:
    port = free_ports_in_row(2)
    held = locked(tmp_path, 1)
    words = ["cluster", "up", "--nodes", "1", "--port", str(port), "--data", str(tmp_path)]
    with subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("node 1 waits: another process")
            assert str(tmp_path / "node-1") in line
            os.close(held)
            assert process.stdout.readline().startswith("node 1 is up at ")
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_directory_that_stays_in_use_is_named(tmp_path: Path) -> None:
    held = locked(tmp_path, 2)
    words = ["cluster", "up", "--nodes", "2", "--data", str(tmp_path)]
    words += ["--port", str(free_ports_in_row(4))]
    try:
        ended = subprocess.run(  # noqa: S603 (our own command)
            [sys.executable, "-c", MAIN, *words],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    finally:
        os.close(held)
    assert ended.returncode != 0
    assert "node 2: another process" in ended.stderr
    assert str(tmp_path / "node-2") in ended.stderr
