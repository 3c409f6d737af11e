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
