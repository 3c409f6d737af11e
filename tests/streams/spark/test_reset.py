"""`moldau streams reset --engine spark`: a stopped app on Spark begins again.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from moldau.client.sync import Admin
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Batches
from tests.streams.spark.moves import on_stages


def test_a_reset_deletes_checkpoint_group_and_topics_and_the_app_counts_again(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers, app = moldau_broker.bootstrap_servers, apps.word_count(moldau_topic)
    monkeypatch.setattr(apps, "given", app, raising=False)
    apps.make_topics(servers, app)
    apps.write(servers, app.name, 0, 3, has_cities=False)
    checkpoint = tmp_path / "checkpoint"
    on_stages(servers, app, tmp_path)
    first = [(each.key, each.value) for each in apps.outs_of(servers, app)]
    words = ("streams", "reset", "tests.spark.streams_apps:given")
    on_spark = (*words, "--engine", "spark", "--checkpoint", str(checkpoint))
    shell = Shell(servers)

    embedded = shell(*words, "--state", str(tmp_path), "--execute")
    assert embedded.code == 1
    assert "is on Spark" in embedded.err
    with closing(Batches(app.plan(), servers, tmp_path, Random(1))):
        used = shell(*on_spark, "--execute")
    assert used.code == 1
    assert "a driver runs with it" in used.err
    late = shell(*on_spark, "--to-latest")
    assert (late.code, late.err.count("\n")) == (2, 1)

    elsewhere = shell(*words, "--engine", "spark", "--checkpoint", "nowhere", "--execute")
    assert elsewhere.code == 1
    assert "is not there" in elsewhere.err

    plan = shell.good(*on_spark, "--json").json
    made = [each.name for each in app.plan().repartitions]
    assert (plan["executed"], plan["topics"]) == (False, made)
    assert (plan["group"], plan["checkpoint"]) == (f"{app.name}-spark", str(checkpoint))
    assert checkpoint.exists()

    assert "checkpoint deleted" in shell.good(*on_spark, "--execute").out
    assert not checkpoint.exists()
    with Admin(bootstrap_servers=servers) as admin:
        assert not {each.name for each in admin.list_topics()}.intersection(made)
    assert "has nothing to reset" in shell.good(*on_spark, "--execute").out
    on_stages(servers, app, tmp_path)
    again = [(each.key, each.value) for each in apps.outs_of(servers, app)]
    assert Counter(again) == Counter([*first, *first])
