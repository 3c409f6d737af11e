"""The fold over the config topic, with the records that Kafka Connect writes."""

from __future__ import annotations

import json

import pytest

from moldau.connect.storage.configs import ConfigImage, RestartRequest, SessionKey
from moldau.connect.storage.keys import ConfigTopicKey, Key, TargetState, TaskId, parse_config_key


def fold(*records: tuple[str, object]) -> ConfigImage:
    image = ConfigImage()
    for key, value in records:
        image.apply(key.encode(), None if value is None else json.dumps(value).encode())
    return image


def config(**properties: str) -> dict[str, dict[str, str]]:
    return {"properties": properties}


CONNECTOR = ("connector-a-b", config(name="a-b"))


def test_task_configs_count_only_from_their_commit_on() -> None:
    image = fold(CONNECTOR, ("task-a-b-0", config(x="0")), ("task-a-b-1", config(x="1")))
    assert image.tasks("a-b") == []

    image.apply(b"commit-a-b", b'{"tasks":2}')

    assert image.tasks("a-b") == [TaskId("a-b", 0), TaskId("a-b", 1)]
    entry = image.get("a-b")
    assert entry is not None
    assert entry.tasks == {0: {"x": "0"}, 1: {"x": "1"}}


def test_a_commit_without_all_of_its_tasks_makes_the_connector_inconsistent() -> None:
    image = fold(CONNECTOR, ("task-a-b-1", config(x="1")), ("commit-a-b", {"tasks": 2}))
    entry = image.get("a-b")
    assert entry is not None
    assert entry.is_inconsistent
    assert image.tasks("a-b") == []

    for record in (
        ("task-a-b-0", config()),
        ("task-a-b-1", config()),
        ("commit-a-b", {"tasks": 2}),
    ):
        image.apply(record[0].encode(), json.dumps(record[1]).encode())

    assert len(image.tasks("a-b")) == 2


def test_a_stopped_connector_has_no_tasks_even_if_some_are_published_late() -> None:
    image = fold(
        CONNECTOR,
        ("target-state-a-b", {"state": "PAUSED", "state.v2": "STOPPED"}),
        ("commit-a-b", {"tasks": 0}),
        ("task-a-b-0", config()),
        ("commit-a-b", {"tasks": 1}),
    )
    assert image.tasks("a-b") == []

    image.apply(b"target-state-a-b", b'{"state":"STARTED","state.v2":"STARTED"}')

    assert image.tasks("a-b") == [TaskId("a-b", 0)]


def test_tasks_keep_the_connector_config_of_their_commit() -> None:
    image = fold(
        CONNECTOR,
        ("task-a-b-0", config()),
        ("commit-a-b", {"tasks": 1}),
        ("connector-a-b", config(name="a-b", new="yes")),
    )

    entry = image.get("a-b")

    assert entry is not None
    assert entry.applied == {"name": "a-b"}
    assert entry.config == {"name": "a-b", "new": "yes"}


def test_a_deleted_connector_has_nothing_left() -> None:
    image = fold(
        CONNECTOR,
        ("task-a-b-0", config()),
        ("commit-a-b", {"tasks": 1}),
        ("target-state-a-b", {"state": "PAUSED"}),
        ("connector-a-b", None),
        ("target-state-a-b", None),
    )

    assert image.names() == []
    assert image.tasks("a-b") == []

    image.apply(b"connector-a-b", b'{"properties":{"name":"a-b"}}')
    entry = image.get("a-b")
    assert entry is not None
    assert entry.target is TargetState.STARTED
    assert image.tasks("a-b") == []


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ({"state": "PAUSED"}, TargetState.PAUSED),
        ({"state": "PAUSED", "state.v2": "STOPPED"}, TargetState.STOPPED),
        ({"state": "STARTED", "state.v2": "STARTED"}, TargetState.STARTED),
        ({"state": "nonsense"}, TargetState.STARTED),
        ({}, TargetState.STARTED),
    ],
)
def test_the_newer_field_of_a_target_state_counts(value: object, target: TargetState) -> None:
    entry = fold(CONNECTOR, ("target-state-a-b", value)).get("a-b")

    assert entry is not None
    assert entry.target is target


def test_restarts_session_keys_and_levels_are_read() -> None:
    image = fold(
        CONNECTOR,
        ("restart-connector-a-b", {"include-tasks": True, "only-failed": False}),
        ("session-key", {"key": "c2VjcmV0", "algorithm": "HmacSHA256", "creation-timestamp": 5}),
        ("logger-cluster-org.apache", {"level": "DEBUG"}),
        ("tasks-fencing-a-b", {"task-count": 3}),
    )

    entry = image.get("a-b")
    assert entry is not None
    assert image.restarts == [RestartRequest("a-b", True, False)]
    assert image.session_key == SessionKey("c2VjcmV0", "HmacSHA256", 5)
    assert image.levels == [("org.apache", "DEBUG")]
    assert entry.fenced_tasks == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"connector-x", b"no json"),
        (b"connector-x", b"[]"),
        (b"connector-x", b'{"properties":3}'),
        (b"commit-x", b'{"tasks":"two"}'),
        (b"task-x-y", b'{"properties":{}}'),
        (b"who knows", b"{}"),
        (b"\xff\xfe", b"{}"),
    ],
)
def test_foreign_and_malformed_records_change_nothing(key: bytes, value: bytes) -> None:
    image = fold(CONNECTOR)

    image.apply(key, value)

    assert image.names() == ["a-b"]


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        (b"connector-a", ConfigTopicKey(Key.CONNECTOR, "a")),
        (b"task-a-1-12", ConfigTopicKey(Key.TASK, "a-1", 12)),
        (b"commit-a", ConfigTopicKey(Key.COMMIT, "a")),
        (b"target-state-a", ConfigTopicKey(Key.TARGET_STATE, "a")),
        (b"tasks-fencing-a", ConfigTopicKey(Key.TASK_COUNT, "a")),
        (b"restart-connector-a", ConfigTopicKey(Key.RESTART, "a")),
        (b"session-key", ConfigTopicKey(Key.SESSION_KEY)),
        (b"task-a", None),
    ],
)
def test_keys_are_those_of_kafka_connect(key: bytes, parsed: ConfigTopicKey | None) -> None:
    assert parse_config_key(key) == parsed
