"""Pipeline files for tests, read without any process: apps' plans are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.pipeline.edges import ReadSchema
from moldau.pipeline.pipeline import App, AppPlan, Pipeline, Step
from moldau.pipeline.reading import Inputs, PipelineFile, read_pipeline

WORDS = """\
pipeline: words
topics:
  lines: {partitions: 2}
  counts: {partitions: 2, config: {cleanup.policy: compact}}
sources:
  read-lines:
    connector.class: FileStreamSource
    file: input.txt
    topic: lines
topologies:
  count-words:
    app: words:app
sinks:
  write-counts:
    connector.class: FileStreamSink
    topics: counts
    file: counts.jsonl
"""

JOB = """\
pipeline: words
worker:
  settings: {key.converter: StringConverter, value.converter: StringConverter}
topics:
  lines: {partitions: 2}
  upper: {partitions: 2}
sources:
  read-lines: {connector.class: FileStreamSource, file: input.txt, topic: lines}
sinks:
  write: {connector.class: FileStreamSink, topics: upper, file: out.txt}
jobs:
  make-upper:
    script: upper.py
    reads: [lines]
    writes: [upper]
    group: upper
    config: {spark.master: "local[1]"}
"""


def app_plan(
    app: str, reads: Sequence[str], writes: Sequence[str], problem: str | None = None
) -> AppPlan:
    steps = (Step("in", "source", (), "source"), Step("out", "sink", ("in",), "sink"))
    makes = (f"{app}-changelog",)
    return AppPlan(app, tuple(reads), tuple(writes), makes, False, (steps,), problem)


PLANS: dict[str, AppPlan | str] = {
    "words:app": app_plan("words", ["lines"], ["counts"]),
    "words:broken": "NameError: name 'x' is not defined",
    "words:back": app_plan("back", ["counts"], ["lines"]),
    "words:same": app_plan("words", ["lines"], []),
}


def read(
    text: str,
    *,
    plans: Mapping[str, AppPlan | str] | None = None,
    files: Mapping[str, str] | None = None,
    target: str | None = None,
    read_schema: ReadSchema | None = None,
    **variables: str,
) -> PipelineFile:
    """Read the text of a file. `plans` are app plans by target, `files` other files by path."""
    known = {**PLANS, **(plans or {})}

    def read_text(path: str) -> str:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory", path)
        return (files or {})[path]

    def explain(apps: Sequence[App], counts: Mapping[str, int]) -> list[AppPlan | str]:
        return [known[each.target] for each in apps]

    inputs = Inputs("/srv/p", read_text, explain, variables, target=target, read_schema=read_schema)
    return read_pipeline(text, "p.yaml", inputs)


def pipeline(text: str = WORDS) -> Pipeline:
    """Return the pipeline of a file that has no problem."""
    reading = read(text)
    assert reading.problems == ()
    return reading.pipeline


def problem_lines(text: str, **given: Mapping[str, str]) -> list[str]:
    """Return the problems as `lint` prints them, without the file's name."""
    found = read(text, **given)  # type: ignore[arg-type]
    return [found.files.format(each).removeprefix("p.yaml:") for each in found.problems]
