"""What Apache Kafka said, kept as data, and how to ask it anew.

`kafka_facts.json` has Kafka's rows, `kafka_probes.json` which values it takes for each,
`kafka_answers.jsonl` its answers to `combinations.txt`. `python -m tests.broker.settings.renew`
asks again, where there is a Java. Kafka's reasons and its documentation are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.broker.settings.cases import combination_line, probe_lines
from tests.peers.apache_kafka import ApacheKafka

HERE = Path(__file__).parent
FACTS = HERE / "kafka_facts.json"
PROBES = HERE / "kafka_probes.json"
ANSWERS = HERE / "kafka_answers.jsonl"
COMBINATIONS = HERE / "combinations.txt"
QUESTIONS = (
    "broker",
    "broker-quota",
    "topic",
    "group",
    "client-metrics",
    "update-modes",
    "topic-synonyms",
    "group-synonyms",
    "broker-synonyms",
)


def combinations() -> list[str]:
    lines = COMBINATIONS.read_text(encoding="ascii").splitlines()
    return [each for each in lines if each and not each.startswith("#")]


@cache
def facts() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(FACTS.read_text(encoding="ascii"))
    return kept


@cache
def taken_values() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Kind -> name -> "yes" and "no" -> the values that Kafka takes and refuses."""
    kept: dict[str, dict[str, dict[str, list[str]]]] = json.loads(
        PROBES.read_text(encoding="ascii")
    )
    return kept


@cache
def answers() -> dict[str, Any]:
    """What Kafka answers to each combination: whether it takes it, or the entries that it shows."""
    lines = ANSWERS.read_text(encoding="ascii").splitlines()
    return dict(map(json.loads, lines))


def ask_facts(kafka: ApacheKafka) -> dict[str, Any]:
    lines = kafka.run_source(HERE / "SettingFacts.java", QUESTIONS)
    return dict(zip(QUESTIONS, map(json.loads, lines), strict=True))


def ask_probes(kafka: ApacheKafka) -> dict[str, dict[str, dict[str, list[str]]]]:
    probes = list(probe_lines())
    verdicts = _ask(kafka, (question for *_, question in probes))
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for (kind, name, value, _), verdict in zip(probes, verdicts, strict=True):
        of_row = found.setdefault(kind, {}).setdefault(name, {"yes": [], "no": []})
        of_row[verdict.partition("\t")[0]].append(value)
    return found


def ask_combinations(kafka: ApacheKafka) -> dict[str, Any]:
    texts = combinations()
    replies = _ask(kafka, map(combination_line, texts))
    found: dict[str, Any] = {}
    for text, reply in zip(texts, replies, strict=True):
        verdict, *entries = reply.split("\t")
        is_described = text.startswith("describe") and verdict == "yes"
        found[text] = list(filter(None, entries)) if is_described else verdict == "yes"
    return {text: without_base(text, answer, found) for text, answer in found.items()}


def without_base(text: str, answer: Any, among: dict[str, Any]) -> Any:
    """Of a description only what differs from that of the same kind with nothing given."""
    base = text.partition(" ; ")[0]
    if base == text or not isinstance(answer, list):
        return answer
    return [entry for entry in answer if entry not in set(among[base])]


def _ask(kafka: ApacheKafka, questions: Iterable[str]) -> list[str]:
    return kafka.run_source(HERE / "SettingAnswers.java", list(questions), heap="512m")


def write(facts: object, probes: object, answers: dict[str, Any]) -> None:
    FACTS.write_text(_rows(facts), encoding="ascii")
    PROBES.write_text(_rows(probes), encoding="ascii")
    lines = (f"{json.dumps([text, answer])}\n" for text, answer in answers.items())
    ANSWERS.write_text("".join(lines), encoding="ascii")


def _rows(tree: object) -> str:
    """JSON with one row of a table on a line, so that changes can be read."""
    assert isinstance(tree, dict)
    parts = []
    for name, table in tree.items():
        if isinstance(table, list):
            rows, ends = [json.dumps(row) for row in table], "[]"
        else:
            rows, ends = (
                [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in table.items()],
                "{}",
            )
        inside = ",\n".join(f"  {row}" for row in rows)
        parts.append(f"{json.dumps(name)}: {ends[0]}\n{inside}\n{ends[1]}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
