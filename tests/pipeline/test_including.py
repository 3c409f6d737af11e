"""A pipeline of several files: `include` merges them, and each problem names its file and line."""

from __future__ import annotations

import pytest

from moldau.errors import ConfigError
from tests.pipeline.files import WORDS, read

MAIN = """\
pipeline: words
include: [topics.yaml, parts/sinks.yaml]
sources:
  read-lines: {connector.class: FileStreamSource, file: input.txt, topic: lines}
topologies:
  count-words: {app: words:app}
"""
TOPICS = """\
topics:
  lines: {partitions: 2}
  counts: {partitions: 2, config: {cleanup.policy: compact}}
"""
SINKS = """\
sinks:
  write-counts:
    connector.class: FileStreamSink
    topics: counts
    file: counts.jsonl
"""


def lint(main: str, topics: str = TOPICS, sinks: str = SINKS) -> list[str]:
    files = {"/srv/p/topics.yaml": topics, "/srv/p/parts/sinks.yaml": sinks}
    found = read(main, files=files)
    return [found.files.format(each) for each in found.problems]


def test_the_sections_of_all_files_are_one_pipeline() -> None:
    files = {"/srv/p/topics.yaml": TOPICS, "/srv/p/parts/sinks.yaml": SINKS}
    found = read(MAIN, files=files)
    assert found.problems == ()
    alone = read(WORDS).pipeline
    for part in ("sources", "apps", "sinks"):
        names = [each.name for each in getattr(found.pipeline, part)]
        assert names == [each.name for each in getattr(alone, part)]
    assert [each.name for each in found.pipeline.topics] == ["lines", "counts"]
    assert found.files.place(found.pipeline.sinks[0].line) == "parts/sinks.yaml:2"


def test_a_problem_names_the_file_and_the_line_that_it_is_in() -> None:
    assert lint(MAIN, sinks=SINKS.replace("topics: counts", "topics: count")) == [
        "parts/sinks.yaml:2: error: sinks.write-counts reads count, which is not under topics; "
        "did you mean counts?"
    ]
    assert lint(MAIN, topics=TOPICS.replace("partitions: 2}", "partition: 2}", 1))[0].startswith(
        "topics.yaml:2: error: topics.lines has no key partition;"
    )
    assert lint(MAIN.replace("topic: lines", "topic: line"))[0].startswith("p.yaml:4: error:")


@pytest.mark.parametrize(
    ("main", "topics", "expected"),
    [
        (
            f"{MAIN}topics: {{lines: {{external: true}}}}\n",
            TOPICS,
            "topics.yaml:2: error: topics.lines is in p.yaml:7 already: remove one of the two",
        ),
        (
            MAIN,
            f"{TOPICS}sources:\n  read-lines: {{connector.class: FileStreamSource}}\n",
            "topics.yaml:5: error: sources.read-lines is in p.yaml:4 already: remove one of the",
        ),
        (
            MAIN,
            f"{TOPICS}sinks:\n  read-lines: {{connector.class: FileStreamSink, topics: counts, "
            "file: f}\n",
            "topics.yaml:5: error: sinks.read-lines: sources.read-lines has that name already in "
            "p.yaml:4",
        ),
        (
            f"{MAIN}worker: {{settings: {{key.converter: StringConverter}}}}\n",
            f"{TOPICS}worker: {{settings: {{key.converter: JsonConverter}}}}\n",
            "topics.yaml:4: error: worker.settings.key.converter is in p.yaml:7 already:",
        ),
        (
            f"{MAIN}targets: {{prod: {{topics: {{lines: {{partitions: 4}}}}}}}}\n",
            f"{TOPICS}targets: {{prod: {{topics: {{lines: {{partitions: 8}}}}}}}}\n",
            "topics.yaml:4: error: targets.prod.topics.lines is in p.yaml:7 already:",
        ),
        (MAIN, f"{TOPICS}pipeline: other\n", "topics.yaml:4: error: pipeline is for the file that"),
        (MAIN, f"{TOPICS}include: [a.yaml]\n", "topics.yaml:4: error: include is for the file"),
        (MAIN, f"{TOPICS}topcs: {{}}\n", "topics.yaml:4: error: no section topcs; did you mean"),
        (
            MAIN.replace("topics.yaml", "topcs.yaml"),
            TOPICS,
            "p.yaml:2: error: include: /srv/p/topcs.yaml: No such file or directory",
        ),
        (
            MAIN.replace("topics.yaml", "topics.yaml, ./topics.yaml"),
            TOPICS,
            "p.yaml:2: error: include: ./topics.yaml is there already",
        ),
        (
            MAIN.replace("[topics.yaml, parts/sinks.yaml]", "topics.yaml"),
            TOPICS,
            "p.yaml:2: error: include must be a list of files",
        ),
        (MAIN.replace("topics.yaml,", "[a],"), TOPICS, "p.yaml:2: error: include: each entry must"),
    ],
)
def test_what_cannot_be_merged_is_a_problem(main: str, topics: str, expected: str) -> None:
    found = lint(main, topics)
    assert any(each.startswith(expected) for each in found), found


def test_targets_and_settings_of_several_files_are_merged() -> None:
    main = f"{MAIN}worker: {{settings: {{key.converter: StringConverter}}}}\n"
    main += "targets: {prod: {topics: {lines: {partitions: 8}}}}\n"
    topics = f"{TOPICS}worker: {{settings: {{value.converter: StringConverter}}}}\n"
    topics += "targets: {prod: {topics: {counts: {partitions: 4}}}}\n"
    files = {"/srv/p/topics.yaml": topics, "/srv/p/parts/sinks.yaml": SINKS}
    found = read(main, files=files, target="prod")
    assert found.problems == ()
    assert set(found.pipeline.worker) == {"key.converter", "value.converter"}
    assert [each.partitions for each in found.pipeline.topics] == [8, 4]


def test_a_file_that_is_no_mapping_is_named() -> None:
    with pytest.raises(ConfigError, match=r"topics\.yaml"):
        lint(MAIN, topics="- a\n")
