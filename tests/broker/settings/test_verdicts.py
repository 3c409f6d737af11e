"""What Kafka takes we take, and what it refuses we refuse: single values, and several together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.settings import kept, ours
from tests.broker.settings.cases import BASE, INTERNAL_TO_KAFKA, combination_line, is_own, line
from tests.peers.apache_kafka import fetch_or_skip


def is_any(value: str) -> bool:
    return True


# Where we differ on purpose: of which setting, which values, and why.
PLUGIN = "plugins are named by aliases here, not by classes that Java finds"
STRICTER = "Kafka finds out later, or never"
ONCE_MORE = "a tag that is there twice says no more than once"
_TAGS = "streams.rack.aware.assignment.tags"


def is_repeated(value: str) -> bool:
    return value == "x,x"


DIFFERENCES: dict[tuple[str, str], tuple[Callable[[str], bool], str]] = {
    ("broker", "group.share.assignors"): (is_any, PLUGIN),
    ("broker", f"group.{_TAGS}"): (is_repeated, ONCE_MORE),
    ("group", _TAGS): (is_repeated, ONCE_MORE),
    ("broker", "metrics.recording.level"): (is_any, STRICTER),
    ("broker", "offsets.topic.segment.bytes"): (is_any, STRICTER),
    ("broker", "share.coordinator.state.topic.segment.bytes"): (is_any, STRICTER),
    ("broker", "transaction.state.log.segment.bytes"): (is_any, STRICTER),
    ("broker", "leader.replication.throttled.rate"): (is_any, STRICTER),
    ("broker", "follower.replication.throttled.rate"): (is_any, STRICTER),
    ("broker", "replica.alter.log.dirs.io.max.bytes.per.second"): (is_any, STRICTER),
    ("broker", "sasl.login.connect.timeout.ms"): (is_any, STRICTER),
    ("broker", "sasl.login.read.timeout.ms"): (is_any, STRICTER),
    ("broker", "sasl.login.retry.backoff.max.ms"): (is_any, STRICTER),
    ("broker", "sasl.login.retry.backoff.ms"): (is_any, STRICTER),
}


def differing_values(kind: str, name: str) -> list[str]:
    place = "file" if kind == "broker" else "own"
    found = []
    for verdict, values in kept.taken_values()[kind][name].items():
        for value in values:
            where = {"file": dict(BASE)}
            where.setdefault(place, {})[name] = value
            if ours.accepts(line(f"accept {kind}", where)) != (verdict == "yes"):
                found.append(value)
    return found


@pytest.mark.parametrize("kind", ["broker", "topic", "group", "client-metrics"])
def test_single_values_are_judged_as_kafka_judges_them(kind: str) -> None:
    differing = {
        name: values
        for name in kept.taken_values()[kind]
        if (values := differing_values(kind, name))
    }

    unexpected = {}
    for name, values in differing.items():
        may_differ, _ = DIFFERENCES.get((kind, name), (lambda value: False, ""))
        rest = [value for value in values if not may_differ(value)]
        if rest:
            unexpected[name] = rest
    assert unexpected == {}
    assert {name for of, name in DIFFERENCES if of == kind} <= set(differing), (
        "a difference is gone"
    )


def test_probes_hold_both_verdicts_of_most_rows() -> None:
    """Or the comparison would say little: only free text may have no value that is refused."""
    of_broker = kept.taken_values()["broker"].values()

    assert all(verdicts["yes"] or verdicts["no"] for verdicts in of_broker)
    assert sum(bool(verdicts["yes"] and verdicts["no"]) for verdicts in of_broker) > 250


@pytest.mark.parametrize(
    "text", [each for each in kept.combinations() if each.startswith("accept")]
)
def test_combinations_are_judged_as_kafka_judges_them(text: str) -> None:
    assert ours.accepts(combination_line(text)) is kept.answers()[text]


def of_kafka(entries: list[str]) -> list[str]:
    """The entries without those of our own settings, and those that Kafka does not show."""
    named = [(each.partition("|")[0], each) for each in entries]
    return [
        # Kafka reads it at its start; here it takes effect at once.
        each.replace("|7|||", "|7|read-only||") if name == f"group.{_TAGS}" else each
        for name, each in named
        if not is_own(name) and name not in INTERNAL_TO_KAFKA
    ]


@pytest.mark.parametrize(
    "text", [each for each in kept.combinations() if each.startswith("describe")]
)
def test_settings_are_shown_as_kafka_shows_them(text: str) -> None:
    base = text.partition(" ; ")[0]
    shown = {each: of_kafka(ours.entries(combination_line(each))) for each in {base, text}}

    assert sorted(kept.without_base(text, shown[text], shown)) == sorted(kept.answers()[text])


def test_every_combination_has_an_answer_and_no_answer_is_left_over() -> None:
    assert list(kept.answers()) == kept.combinations()


@pytest.mark.real
@pytest.mark.slow
def test_the_kept_answers_are_those_of_kafka() -> None:
    kafka = fetch_or_skip()

    assert kept.ask_combinations(kafka) == kept.answers()
    assert kept.ask_probes(kafka) == kept.taken_values()
