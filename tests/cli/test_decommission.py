"""`moldau broker decommission` from start to end, on real processes, while records are kept."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.runtime.node_processes import MAIN
from moldau.testing import Cluster
from tests.cli.operated import partitions_of
from tests.cli.shell import Shell

pytestmark = [pytest.mark.real, pytest.mark.deep]

LEAVING = 3
COUNT = 300


def test_a_broker_leaves_and_nothing_is_lost() -> None:
    with Cluster(brokers=3, controllers=1) as cluster:
        servers = f"{cluster.address_of(1)},{cluster.address_of(2)}"
        shell = Shell(servers)
        shell.good("topic", "create", "kept", "--partitions", "6", "--replicas", "2")
        before = partitions_of(shell, "kept")
        assert any(LEAVING in each["replicas"] for each in before)
        shell.good("produce", "kept", source="".join(f"{number}\n" for number in range(COUNT)))
        with subprocess.Popen(  # noqa: S603 (our own command)
            [
                *(sys.executable, "-c", MAIN, "broker", "decommission", str(LEAVING)),
                *("--bootstrap", servers),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stderr is not None
                said = ""
                while f"stop broker {LEAVING} now" not in said:
                    line = process.stderr.readline()
                    assert line, said
                    said += line
                assert "partitions leave broker 3" in said
                cluster.stop(LEAVING)
                out, _ = process.communicate(timeout=120)
            finally:
                process.kill()
        assert process.returncode == 0
        assert f"broker {LEAVING} is forgotten" in out
        described = shell.good("cluster", "describe", "--json").json
        assert [each["id"] for each in described["brokers"]] == [1, 2]
        assert all({*each["replicas"]} == {1, 2} for each in partitions_of(shell, "kept"))
        assert len(shell.good("consume", "kept").out.splitlines()) == COUNT
