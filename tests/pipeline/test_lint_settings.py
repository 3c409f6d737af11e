"""`moldau pipeline lint`: settings of topics and apps, and the columns and SQL of Spark sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from moldau.broker.settings.tables import TOPIC_SETTINGS as BROKER_ROWS
from moldau.cli import main
from moldau.config.yaml_tree import parse
from moldau.pipeline.queries import Query, check_queries
from moldau.pipeline.reading import TOPIC_SETTINGS
from tests.connectors.spark.runners import need_spark
from tests.pipeline.files import WORDS, problem_lines, read
from tests.suites import may_use_java

SPARK_SINK = """\
  to-lake:
    connector.class: SparkSinkConnector
    topics: counts
    value.schema: id BIGINT, amount DECIMAL(10, 2), tags ARRAY<STRING>
    transforms.sql: SELECT amont FROM source
    sink.format: parquet
    sink.path: /tmp/lake
    checkpoint.location: /tmp/checkpoints
"""


def test_the_settings_of_topics_are_those_of_the_broker() -> None:
    assert sorted(TOPIC_SETTINGS) == sorted(
        each.name for each in BROKER_ROWS if not each.name.startswith("internal.")
    )


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            "retention.msec: 1",
            "Kafka has no topic setting retention.msec; did you mean retention.ms?",
        ),
        ("retention.ms: 1d", "retention.ms: '1d' is not a whole number of -1 or more"),
        ("cleanup.policy: compacted", "cleanup.policy: 'compacted' is not one of compact, delete"),
        ("preallocate: yes please", "preallocate: 'yes please' is not one of true, false"),
    ],
)
def test_a_wrong_setting_of_a_topic_is_found_with_its_line(config: str, problem: str) -> None:
    (found,) = problem_lines(WORDS.replace("cleanup.policy: compact", config))

    assert found.startswith("4: ")
    assert problem in found


def test_good_settings_of_topics_are_no_problem() -> None:
    good = "cleanup.policy: [compact, delete], retention.ms: -1, compression.type: zstd"

    assert problem_lines(WORDS.replace("cleanup.policy: compact", good)) == []


def test_settings_of_an_app_are_checked_by_the_app(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.py").write_text(
        "from moldau.streams import Streams\n"
        "app = Streams('words')\n"
        "app.stream('lines', str).to('counts')\n"
    )
    settings = (
        "    settings: {poll.ms: soon, state.dir: '${env:STATE}', acks: all, "
        "consumer.fetch.max.byts: 1}\n"
    )
    file = tmp_path / "pipeline.yaml"
    file.write_text(WORDS.replace("    app: words:app\n", f"    app: words:app\n{settings}"))

    assert main(["pipeline", "lint", str(file)]) == 1
    first = capsys.readouterr().out
    file.write_text(file.read_text().replace("poll.ms: soon", "poll.ms: 5"))
    assert main(["pipeline", "lint", str(file)]) == 1
    second = capsys.readouterr().out

    assert "pipeline.yaml:13: error: topologies.count-words.settings: poll.ms must be" in first
    assert "fetch.max.byts" in second
    assert "acks" not in second


def test_the_answer_about_a_query_has_its_line() -> None:
    asked: list[Query] = []

    def check(queries: Sequence[Query]) -> list[str | None]:
        asked.extend(queries)
        return ["no such column"]

    root, _ = parse(WORDS + SPARK_SINK, "p.yaml", "")
    (found,) = check_queries(read(WORDS + SPARK_SINK).pipeline, root, check)
    (unknown,) = check_queries(read(WORDS + SPARK_SINK).pipeline, root, lambda _: "no Java")

    assert found.format("p.yaml") == (
        "p.yaml:22: error: sinks.to-lake: transforms.sql: no such column"
    )
    assert (unknown.is_error, unknown.line) == (False, 22)
    assert asked[0]["columns"].startswith("id BIGINT, amount DECIMAL(10, 2)")
    assert asked[0]["columns"].endswith("`_key` BINARY")


@pytest.mark.real
@pytest.mark.deep
def test_spark_finds_the_mistakes_in_sql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_spark()
    may_use_java()
    text = WORDS[: WORDS.index("topologies:")] + "sinks:\n" + SPARK_SINK
    text = text.replace("topics: counts", "topics: lines")
    file = tmp_path / "pipeline.yaml"
    syntax = SPARK_SINK.replace("to-lake", "syntax").replace("SELECT amont", "SELEC amount")
    infer = syntax.replace("value.schema: id BIGINT, amount DECIMAL(10, 2), tags ARRAY<STRING>",
                           "value.schema: infer").replace("syntax", "infer")  # fmt: skip
    good = SPARK_SINK.replace("to-lake", "good").replace("amont", "amount, _offset, _key")
    file.write_text(text + (syntax + infer + good).replace("topics: counts", "topics: lines"))

    assert main(["pipeline", "lint", str(file)]) == 1

    lines = [each for each in capsys.readouterr().out.splitlines() if "transforms.sql" in each]
    found: Mapping[str, str] = {each.split()[2].rstrip(":"): each for each in lines}
    assert found.keys() == {"sinks.to-lake", "sinks.syntax", "sinks.infer"}
    assert "UNRESOLVED_COLUMN" in found["sinks.to-lake"]
    assert "PARSE_SYNTAX_ERROR" in found["sinks.syntax"]
    assert "PARSE_SYNTAX_ERROR" in found["sinks.infer"]
