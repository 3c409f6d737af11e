"""`moldau pipeline lint`: every mistake in one pass, with its line."""

from __future__ import annotations

import pytest

from moldau.errors import ConfigError
from moldau.pipeline.pipeline import Topic
from moldau.pipeline.wiring import check_wiring
from tests.pipeline.files import WORDS, app_plan, pipeline, problem_lines, read


def test_a_sound_file_is_read() -> None:
    found = pipeline()

    assert found.name == "words"
    assert found.topics == (
        Topic("lines", 3, 2),
        Topic("counts", 4, 2, config={"cleanup.policy": "compact"}),
    )
    (source,), (app,), (sink,) = found.sources, found.apps, found.sinks
    assert source.config["file"] == "input.txt"
    assert source.config["name"] == "read-lines"
    assert (source.writes, app.reads, app.writes, sink.reads) == (
        ("lines",),
        ("lines",),
        ("counts",),
        ("counts",),
    )


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "sources:",
            "sourcse:",
            "5: error: no section sourcse; did you mean sources? (known: pipeline, variables, "
            "broker, worker, topics, sources, topologies, jobs, sinks)",
        ),
        (
            "partitions: 2}",
            "partition: 2}",
            "3: error: topics.lines has no key partition; did you mean partitions? "
            "(known: partitions, replication, config, external, schema)",
        ),
        ("partitions: 2}", "partitions: two}", "3: error: topics.lines.partitions: input should be a valid integer, unable to parse string as an integer"),  # noqa: E501
        ("partitions: 2}", "partitions: 0}", "3: error: topics.lines.partitions: input should be greater than or equal to 1"),  # noqa: E501
        ("pipeline: words", "x-pipeline: words", "1: error: the pipeline has no name: add a line such as `pipeline: orders`"),  # noqa: E501
        ("pipeline: words", "pipeline: two words", "1: error: pipeline is not a name: use letters, digits, '.', '_' and '-'"),  # noqa: E501
        ("app: words:app", "app: words", "12: error: topologies.count-words.app must be MODULE:APP, such as word_count:app"),  # noqa: E501
        ("app: words:app", "app: words:broken", "12: error: topologies.count-words: NameError: name 'x' is not defined"),  # noqa: E501
        ("app: words:app", "app: words:app\n    engine: java", "13: error: topologies.count-words.engine: input should be 'embedded' or 'spark'"),  # noqa: E501
        ("app: words:app", "worker: 2", "11: error: topologies.count-words.app is missing: add it"),
        ("topic: lines", "topics: lines", '9: warning: sources.read-lines: Nothing reads the configuration "topics"; did you mean "topic"?'),  # noqa: E501
        ("topic: lines", "batch.size: 7", '6: error: sources.read-lines: Missing required configuration "topic" which has no default value.'),  # noqa: E501
        ("FileStreamSource", "FileStreamSink", "7: error: sources.read-lines: FileStreamSink is a sink: put it under sinks"),  # noqa: E501
        ("topics: counts", "topics: count", "14: error: sinks.write-counts reads count, which is not under topics; did you mean counts?"),  # noqa: E501
        ("topic: lines", "topic: linse", "6: error: sources.read-lines writes linse, which is not under topics; did you mean lines?"),  # noqa: E501
        ("    app: words:app", "    app: words:app\n  copy:\n    app: words:same", "13: error: topologies.copy: the app id words is that of topologies.count-words too"),  # noqa: E501
        ("    app: words:app", "    app: words:app\n  back:\n    app: words:back", "11: error: records run in a circle: count-words -> back -> count-words"),  # noqa: E501
        ("  write-counts:", "  read-lines:", "14: error: sinks.read-lines: sources.read-lines has that name already"),  # noqa: E501
        ("  lines:", "  lines:\n  lines:", "4: error: the key lines is in line 3 already: remove one of the two"),  # noqa: E501
        ("  lines:", "  'two words':\n  lines:", "3: error: topics: two words is not a name: use letters, digits, '.', '_' and '-'"),  # noqa: E501
        ("  lines:", "  spare:\n  lines:", "3: warning: topics.spare: nothing reads or writes it"),
        ("file: input.txt", "file: ${var:inptu}", "8: error: there is no variable inptu under variables"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(before: str, after: str, problem: str) -> None:
    assert before in WORDS

    assert problem in problem_lines(WORDS.replace(before, after, 1))


def test_all_mistakes_are_told_at_once_in_the_order_of_lines() -> None:
    text = WORDS.replace("partitions: 2}", "partition: 2}").replace(
        "topics: counts", "topics: count"
    )

    found = problem_lines(text.replace("app: words:app", "app: nothing"))

    assert [each.partition(":")[0] for each in found] == ["3", "4", "12", "14"]


def test_a_sink_without_a_writer_is_an_error_unless_the_topic_is_external() -> None:
    alone = WORDS[: WORDS.index("topologies:")] + WORDS[WORDS.index("sinks:") :]

    assert problem_lines(alone) == [
        "11: error: sinks.write-counts reads counts, which nothing writes: add a source, or "
        "`external: true` to the topic"
    ]
    assert problem_lines(alone.replace("counts: {", "counts: {external: true, ")) == []


def test_inputs_of_a_join_with_different_partitions_are_told() -> None:
    plan = app_plan("words", ["lines"], ["counts"], "records of these topics meet by key")

    found = read(WORDS, plans={"words:app": plan}).problems

    assert [each.format("p") for each in found] == [
        "p:11: error: topologies.count-words: records of these topics meet by key"
    ]


def test_a_source_that_does_not_tell_its_topics_makes_a_warning() -> None:
    text = WORDS.replace(
        "    file: input.txt\n    topic: lines",
        "    connection.url: sqlite:///shop.db\n    mode: bulk\n    topic.prefix: shop-",
    ).replace("FileStreamSource", "JdbcSource")

    (problem,) = problem_lines(text)

    assert problem == (
        "12: warning: topologies.count-words reads lines; whether sources.read-lines writes it is "
        "not known: name its topics in `writes` beside its `config`"
    )


def test_tables_and_writes_tell_the_topics_of_a_source() -> None:
    jdbc = "connector.class: JdbcSource, connection.url: 'sqlite:///s.db', mode: bulk"
    head = "pipeline: p\ntopics: {a-x: , a-y: , b: }\nsources:\n"
    by_tables = f"{head}  s: {{{jdbc}, topic.prefix: a-, table.whitelist: 'main.x,y'}}\n"
    by_writes = f"{head}  s: {{config: {{{jdbc}, topic.prefix: q}}, writes: [b]}}\n"

    assert read(by_tables).pipeline.sources[0].writes == ("a-x", "a-y")
    assert read(by_writes).pipeline.sources[0].writes == ("b",)
    assert not read(by_writes).pipeline.sources[0].chooses_topics


ENRICHING = """\
pipeline: p
topics: {orders: {external: true}, enriched: , dead: }
sinks:
  enrich:
    connector.class: SparkSinkConnector
    topics: orders
    sink.format: topic
    sink.topic: enriched
    checkpoint.location: checkpoints
    spark.deploy: remote
    spark.remote: sc://localhost
    errors.tolerance: all
    errors.deadletterqueue.topic.name: dead
  show:
    connector.class: FileStreamSink
    topics: enriched
    file: enriched.txt
"""


def wiring_lines(text: str) -> list[str]:
    """The problems of the wiring alone."""
    return [each.format("p").removeprefix("p:") for each in check_wiring(read(text).pipeline)]


def test_a_sink_may_write_topics() -> None:
    assert read(ENRICHING).pipeline.sinks[0].writes == ("enriched", "dead")
    assert wiring_lines(ENRICHING) == []


def test_a_sink_writes_a_topic_for_each_that_it_reads() -> None:
    each = ENRICHING.replace("sink.topic: enriched", "sink.topic: 'more-${topic}'")
    pattern = each.replace("topics: orders\n    sink", "topics.regex: ord.*\n    sink")

    assert read(each).pipeline.sinks[0].writes == ("more-orders", "dead")
    assert read(pattern).pipeline.sinks[0].chooses_topics


def test_writes_tells_the_topics_of_a_sink() -> None:
    text = (
        WORDS + "  other:\n    writes: [lines]\n    config: {connector.class: com.example.Sink}\n"
    )

    assert read(text).pipeline.writers_of("lines") == ["read-lines", "other"]


def test_a_dead_letter_topic_may_be_left_to_the_worker_and_be_processed_again() -> None:
    missing = ENRICHING.replace(", dead: ", "")
    again = ENRICHING.replace("topics: orders\n", "topics: 'orders,dead'\n")

    assert wiring_lines(missing) == [
        "4: warning: sinks.enrich writes dead letters to dead, which is not under topics: the "
        "worker makes it"
    ]
    assert wiring_lines(again) == []


def test_a_wrong_pattern_is_a_problem_and_no_crash() -> None:
    text = WORDS.replace("topics: counts\n", "topics.regex: '('\n")

    assert any(
        "16: error: sinks.write-counts: Invalid value (" in line for line in problem_lines(text)
    )


def test_a_circle_over_a_sink_is_told() -> None:
    text = ENRICHING.replace("topics: orders\n", "topics: enriched\n")

    assert "4: error: records run in a circle: enrich -> enrich" in wiring_lines(text)


def test_a_connector_may_be_a_file_of_connect() -> None:
    text = WORDS[: WORDS.index("  write-counts:")] + "  write-counts: sink.json\n"
    config = (
        '{"name": "other", "config": {"connector.class": "FileStreamSink", "topics": "counts", '
        '"file": "counts.jsonl"}}'
    )

    found = read(text, files={"/srv/p/sink.json": config})

    assert found.problems == ()
    assert found.pipeline.sinks[0].config["name"] == "write-counts"
    assert problem_lines(text) == [
        "14: error: sinks.write-counts: /srv/p/sink.json: No such file or directory"
    ]


def test_lists_in_configs_are_comma_separated_texts() -> None:
    text = WORDS.replace("topics: counts", "topics: [counts, lines]")

    assert pipeline(text).sinks[0].config["topics"] == "counts,lines"


def test_a_transform_may_use_the_python_modules_that_the_file_allows() -> None:
    shouting = WORDS.replace(
        "    file: input.txt\n",
        "    file: input.txt\n    transforms: shout\n    transforms.shout.type: Python\n"
        "    transforms.shout.function: shouting:shout\n",
    )
    assert "add it to transforms.python.modules" in "\n".join(problem_lines(shouting))

    allowed = "worker:\n  settings: {transforms.python.modules: shouting}\n"
    assert all("warning" in line for line in problem_lines(allowed + shouting))


def test_wrong_settings_of_the_worker_are_told() -> None:
    worker = (
        "worker:\n  settings:\n    offset.flush.intervall.ms: 5\n    key.converter: StrConverter\n"
    )

    unknown, converter, *_ = problem_lines(worker + WORDS)

    assert unknown.startswith(
        '3: warning: worker.settings: Nothing reads the configuration "offset.flush.intervall.ms"'
    )
    assert converter.startswith("4: error: worker.settings.key.converter: ")
    assert "StringConverter" in converter


def test_variables_are_replaced_and_can_be_given() -> None:
    text = WORDS.replace("input.txt", "${var:folder}/in.txt") + "variables: {folder: here}\n"

    assert read(text).pipeline.sources[0].config["file"] == "here/in.txt"
    assert read(text, folder="there").pipeline.sources[0].config["file"] == "there/in.txt"
    (problem,) = read(text, foldr="x").problems
    assert problem.text == "--var foldr: the file has no such variable; did you mean folder?"


def test_variables_may_use_variables() -> None:
    variables = 'variables: {out: "${var:root}/out", root: "/${var:name}", name: a}\n'
    text = WORDS.replace("input.txt", "${var:out}/in.txt") + variables

    assert problem_lines(text) == []
    assert read(text).pipeline.sources[0].config["file"] == "/a/out/in.txt"
    assert read(text, name="b").pipeline.sources[0].config["file"] == "/b/out/in.txt"


def test_a_circle_of_variables_is_one_error() -> None:
    text = WORDS + 'variables: {a: "${var:b}", b: "${var:a}"}\n'

    assert problem_lines(text) == ["18: error: variables use each other in a circle: a -> b -> a"]


def test_variables_in_a_file_of_connect_are_replaced() -> None:
    text = WORDS[: WORDS.index("  write-counts:")] + "  write-counts: sink.properties\n"
    config = (
        "name=other\nconnector.class=FileStreamSink\ntopics=counts\n"
        "file=${var:out}/${file:a.properties:b}\n"
    )

    found = read(text + "variables: {out: there}\n", files={"/srv/p/sink.properties": config})

    assert found.pipeline.sinks[0].config["file"] == "there/${file:/srv/p/a.properties:b}"


def test_a_variable_in_shell_style_is_a_warning() -> None:
    text = WORDS.replace("input.txt", "${OUT}/${folder}/${topic}") + "variables: {folder: here}\n"

    assert problem_lines(text) == [
        "8: warning: `${OUT}` is no reference: write ${var:OUT} or ${env:OUT}",
        "8: warning: `${folder}` is no reference: write ${var:folder} or ${env:folder}",
    ]


def test_what_is_no_yaml_is_one_error_that_quotes_nothing() -> None:
    with pytest.raises(ConfigError, match="not YAML") as caught:
        read("pipeline: p\npassword: 'hunter2\n")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match="is a YAML mapping"):
        read("- a\n- b\n")


def test_aliases_that_multiply_are_refused() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9))

    with pytest.raises(ConfigError, match="too large"):
        read(f"l0: &l0 [x]\n{levels}\n")
