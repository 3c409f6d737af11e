"""`--target` and `--select`: values of a target win, and some parts of a file run alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli import main
from moldau.errors import BadGiven
from moldau.pipeline.pipeline import selected
from moldau.pipeline.plan import Facts, plan
from tests.pipeline.files import WORDS, pipeline, problem_lines, read

TARGETS = """\
targets:
  prod:
    topics:
      lines: {partitions: 12}
    sources:
      read-lines: {config: {file: /srv/input.txt}}
    topologies:
      count-words: {workers: 4}
"""


def test_the_values_of_a_target_win_and_the_others_stay() -> None:
    text = WORDS + TARGETS
    assert read(text).pipeline == pipeline()
    found = read(text, target="prod")
    assert found.problems == ()
    (app,), (source,) = found.pipeline.apps, found.pipeline.sources
    assert (app.target, app.workers) == ("words:app", 4)
    assert (source.config["file"], source.config["topic"]) == ("/srv/input.txt", "lines")
    assert [each.partitions for each in found.pipeline.topics] == [12, 2]


@pytest.mark.parametrize(
    ("target", "old", "new", "expected"),
    [
        ("prd", "", "", "the file has no target prd; did you mean prod? (it has prod)"),
        (None, "    topics:", "    topcis:", "targets.prod has no section topcis; did you mean to"),
        ("prod", "workers: 4", "workers: none", "topologies.count-words.workers: "),
        (
            "prod",
            "    topics:\n      lines: {",
            "    topics:\n      line: {",
            "topics.line: nothing",
        ),
    ],
)
def test_mistakes_of_targets_are_told(
    target: str | None, old: str, new: str, expected: str
) -> None:
    text = WORDS + (TARGETS.replace(old, new, 1) if old else TARGETS)
    lines = [each.format("p") for each in read(text, target=target).problems]
    assert any(expected in each for each in lines), lines


def test_a_connector_may_be_written_without_config_and_one_in_a_file_stays() -> None:
    flat = TARGETS.replace("{config: {file: /srv/input.txt}}", "{file: /srv/input.txt}")
    assert read(WORDS + flat, target="prod") == read(WORDS + TARGETS, target="prod")
    own = WORDS[: WORDS.index("sources:")] + "sources:\n  read-lines: read.json\n"
    own += WORDS[WORDS.index("topologies:") :]
    config = '{"connector.class": "FileStreamSource", "file": "a", "topic": "lines"}'
    files = {"/srv/p/read.json": config}
    lines = [e.format("p") for e in read(own + TARGETS, target="prod", files=files).problems]
    assert any("targets.prod.sources.read-lines: its config is in a file" in e for e in lines)


def test_a_target_without_sections_is_the_file() -> None:
    text = f"{WORDS}targets:\n  dev:\n"
    assert problem_lines(text) == []
    assert read(text, target="dev").pipeline == pipeline()
    assert problem_lines(f"{WORDS}targets: [dev]\n") == [
        f"{WORDS.count(chr(10)) + 1}: error: targets must be a mapping of names to sections"
    ]


def test_selected_parts_have_their_topics_and_leave_other_connectors_alone() -> None:
    found = selected(pipeline(), ["write-counts"])
    assert [each.name for each in found.topics] == ["counts"]
    assert (found.sources, found.apps) == ((), ())
    steps = plan(found, Facts(made=frozenset({"read-lines", "gone"}))).steps
    assert [(each.action.value, each.name) for each in steps] == [
        ("create", "counts"),
        ("remove", "gone"),
        ("create", "write-counts"),
    ]
    assert selected(pipeline(), []) == pipeline()


def test_an_unknown_part_is_refused_with_what_is_near() -> None:
    with pytest.raises(BadGiven, match=r"--select count-word: .*did you mean count-words\?"):
        selected(pipeline(), ["count-word"])


def test_the_command_draws_what_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipeline.yaml"
    sinks = WORDS[WORDS.index("sinks:") :]
    topics = "topics:\n  counts: {external: true}\n"
    prod = "targets:\n  prod: {topics: {counts: {partitions: 3}}}\n"
    another = sinks.replace("write-counts", "again").replace("sinks:\n", "")
    file.write_text(f"pipeline: words\n{topics}{sinks}{another}{prod}")
    main(["pipeline", "draw", str(file), "--target", "prod", "--select", "again"])
    assert capsys.readouterr().out == (
        "pipeline words\ncounts  topic, 3 partitions, external\n  -> again  sink FileStreamSink\n"
    )
