"""A job of Spark Declarative Pipelines with a real Spark: the folder of docs/pipelines.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.errors import ConfigError
from moldau.spark.declarative import need_pipelines
from moldau.spark.session import need_connect
from tests.connectors.spark.runners import need_spark
from tests.pipeline.running import Folder

GUIDE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text(encoding="utf-8")
FILES = """\
worker:
  settings: {key.converter: StringConverter, value.converter: StringConverter}
sources:
  read: {connector.class: FileStreamSource, file: input.txt, topic: orders}
sinks:
  write: {connector.class: FileStreamSink, topics: large-orders, file: out.txt}
"""


def block(word: str) -> str:
    """The block of the guide that has this word in it."""
    found: list[str] = re.findall(r"^```\w*\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return next(each for each in found if word in each)


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.spark
def test_a_folder_reads_a_topic_and_writes_one_as_the_guide_says(tmp_path: Path) -> None:
    need_spark()
    try:
        need_connect()
        need_pipelines()
    except ConfigError as error:
        pytest.skip(str(error))
    folder = Folder(tmp_path / "shop")
    code = folder.path / "large" / "transformations"
    code.mkdir(parents=True)
    storage = f"file://{tmp_path}/storage"
    spec = block("storage: file:").replace("file:///srv/large/storage", storage)
    (folder.path / "large" / "spark-pipeline.yml").write_text(spec)
    (code / "large.py").write_text(block("dp.create_sink"))
    text = block("folder: large").replace("every: 60", "every: 1")
    (folder.path / "pipeline.yaml").write_text(text + FILES)
    (folder.path / "input.txt").write_text("7\n150\n99\n1000\n")

    said = folder.moldau("pipeline", "run", "--once", "--idle", "3")

    assert "all records are processed" in said
    assert (folder.path / "out.txt").read_text().split() == ["150", "1000"]
