"""`moldau pipeline reset PART` for an app on Spark, which begins again with a new checkpoint.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from moldau.client.sync import Admin
from moldau.pipeline.data_directory import DataDirectory, PipelineFailed
from moldau.pipeline.pipeline import SPARK, App, AppPlan
from moldau.pipeline.removal import reset_part
from moldau.runtime.real_files import RealFiles
from moldau.streams import Streams
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as spark_apps
from tests.streams.spark.batches import Batches


@dataclass
class SparkPart:
    """An app on Spark in a pipeline. Its stages run here, without Java."""

    part: App
    streams: Streams
    data: DataDirectory
    client: dict[str, str]
    directory: str
    folder: Path

    @contextmanager
    def driver(self) -> Iterator[Batches]:
        servers = self.client["bootstrap.servers"]
        with closing(Batches(self.streams.plan(), servers, self.folder, Random(1))) as batches:
            yield batches

    def run(self) -> None:
        with self.driver() as batches:
            batches.settle()

    def outputs(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return the keys and values of all outputs, in the order of the topics."""
        found = spark_apps.outs_of(self.client["bootstrap.servers"], self.streams)
        return [(each.key, each.value) for each in found]

    def reset(self) -> list[str]:
        said: list[str] = []
        problems = reset_part(self.part, self.data, self.client, self.directory, said.append)
        assert problems == []
        return said


@contextmanager
def on_spark(tmp_path: Path, checkpoint: str | None = None) -> Iterator[SparkPart]:
    """Yield an app whose stages have counted three words, on a broker of its own."""
    given = {} if checkpoint is None else {"checkpoint.location": checkpoint}
    data = DataDirectory(RealFiles(), str(tmp_path / "data"))
    data.prepare()
    folder = tmp_path / "data" / "apps" if checkpoint is None else tmp_path
    streams = spark_apps.word_count("words")
    made = tuple(topic.name for topic in streams.plan().repartitions)
    plan = AppPlan("words", ("words-lines",), ("words-out",), made, False, (), None)
    part = App("checkpoint", 1, "words:app", settings=given, plan=plan, engine=SPARK)
    with SyncEmbeddedBroker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        found = SparkPart(part, streams, data, client, str(tmp_path), folder)
        spark_apps.make_topics(broker.bootstrap_servers, streams)
        spark_apps.write(broker.bootstrap_servers, "words", 0, 3, has_cities=False)
        found.run()
        yield found


@pytest.mark.parametrize("location", [None, "checkpoint"])
def test_an_app_on_spark_counts_from_the_beginning_after_a_reset(
    tmp_path: Path, location: str | None
) -> None:
    with on_spark(tmp_path, location) as app:
        first = app.outputs()
        app.run()
        assert app.outputs() == first, "nothing is left to read"

        said = app.reset()
        assert said == [
            "checkpoint begins again: deleted the group words-spark, 1 topic, its checkpoint"
        ]
        assert not (app.folder / "checkpoint").exists()
        with Admin(app.client) as admin:
            assert "words-spark" not in [each.group_id for each in admin.list_groups()]
        app.run()
        assert Counter(app.outputs()) == Counter([*first, *first])


def test_a_checkpoint_that_is_used_or_is_of_another_app_is_not_deleted(tmp_path: Path) -> None:
    with on_spark(tmp_path, "checkpoint") as app:
        kept = app.folder / "checkpoint"
        with app.driver(), pytest.raises(PipelineFailed, match="a driver runs with it"):
            app.reset()
        for name, problem in (("left", "has moved"), ("moving", "was cut short")):
            (kept / name).write_text("")
            with pytest.raises(PipelineFailed, match=problem):
                app.reset()
            (kept / name).unlink()
        (kept / "app.json").write_text('{"app": "other"}')
        with pytest.raises(PipelineFailed, match="it is no checkpoint of this app"):
            app.reset()
        assert (kept / "runs").exists()
        (kept / "app.json").unlink()  # as a reset that was cut short leaves it
        app.reset()
        assert not kept.exists()
