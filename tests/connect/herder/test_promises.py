"""A config that asks for exactly-once is refused where only at-least-once can be promised."""

from __future__ import annotations

from moldau.connect.herder.operations import validated

SOURCE = {"name": "a", "connector.class": "FileStreamSource", "file": "in", "topic": "t"}


def errors(**config: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in config.items()}
    infos = validated({**SOURCE, **given}, {}, asks=False)
    return {problem.key: problem.text for problem in infos.errors}


def test_exactly_once_that_is_required_and_cannot_be_had_is_an_error() -> None:
    text = errors(exactly_once_support="required")["exactly.once.support"]

    assert "at-least-once: lines may come twice after a crash" in text
    assert " -> leave the setting out" in text


def test_exactly_once_that_is_only_requested_is_none() -> None:
    assert errors(exactly_once_support="requested") == {}
    assert errors() == {}


EXACT = {"exactly.once.source.support": "enabled", "offset.storage.topic": "offsets"}


def problems(worker: dict[str, str], **config: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in config.items()}
    infos = validated({**SOURCE, **given}, worker, asks=False)
    return {problem.key: problem.text for problem in infos.errors + infos.warnings}


def test_exactly_once_that_is_required_is_promised_by_a_worker_that_has_it() -> None:
    assert problems(EXACT, exactly_once_support="required") == {}
    text = problems({}, exactly_once_support="required")["exactly.once.support"]
    assert "set exactly.once.source.support=enabled on every worker" in text


def test_boundaries_that_a_connector_does_not_define_are_refused() -> None:
    for worker in (EXACT, {}):
        text = problems(worker, transaction_boundary="connector")["transaction.boundary"]
        assert "use poll or interval" in text or "has no effect" in text
    assert "transaction.boundary" in errors(transaction_boundary="connector")


def test_settings_of_transactions_without_effect_are_warned_of() -> None:
    assert "has no effect" in problems({}, transaction_boundary="poll")["transaction.boundary"]
    interval = {"transaction_boundary_interval_ms": "10"}
    assert "has no effect" in problems(EXACT, **interval)["transaction.boundary.interval.ms"]
    assert problems(EXACT, transaction_boundary="interval", **interval) == {}


def test_a_producer_that_cannot_write_transactions_is_refused() -> None:
    own = {"producer_override_transactional_id": "mine", "producer_override_acks": "1"}
    assert set(problems(EXACT, **own)) == {
        "producer.override.transactional.id",
        "producer.override.acks",
    }
    long = {
        "transaction_boundary": "interval",
        "transaction_boundary_interval_ms": "60000",
        "producer_override_transaction_timeout_ms": "30000",
    }
    assert (
        "make the interval shorter" in problems(EXACT, **long)["transaction.boundary.interval.ms"]
    )


def test_a_topic_for_the_offsets_of_one_connector_is_refused_by_name() -> None:
    assert list(problems(EXACT, offsets_storage_topic="mine")) == ["offsets.storage.topic"]
    assert problems(EXACT, offsets_storage_topic="offsets") == {}
