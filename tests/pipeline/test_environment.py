"""`moldau pipeline` and the cluster that MOLDAU_BOOTSTRAP names."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.sync import Admin
from moldau.testing import SyncEmbeddedBroker
from tests.pipeline.running import Folder

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_run_uses_the_cluster_of_the_environment_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be")
    with SyncEmbeddedBroker() as broker:
        monkeypatch.setenv("MOLDAU_BOOTSTRAP", broker.bootstrap_servers)
        with folder.running("--own-broker") as run:
            folder.await_all()
            assert "read-lines" in folder.moldau("pipeline", "status")
            assert folder.state()["is_own_broker"]
            run.stop()
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert {each.name for each in admin.list_topics()}.isdisjoint({"lines", "counts"})
        folder.moldau("pipeline", "down", "--delete", "--yes")

        with folder.running() as run:
            assert any(broker.bootstrap_servers in each for each in run.said)
            folder.write("or")
            folder.await_all()
            run.stop()
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert {"lines", "counts"} <= {each.name for each in admin.list_topics()}
        folder.moldau("pipeline", "down", "--delete", "--yes")
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert {each.name for each in admin.list_topics()}.isdisjoint({"lines", "counts"})

    refused = folder.moldau("pipeline", "run", "--own-broker", "-b", "localhost:1", code=2)
    assert refused == ""
