"""An app's settings: each goes where it belongs, and the page says what there is."""

from __future__ import annotations

import re

import pytest

from moldau.config import BadSettings
from moldau.streams.worker.settings import app_settings, commit_interval_ms
from tests.streams.worker import metrics_page
from tests.streams.worker.page import PAGE, render


def test_the_page_is_that_of_the_rows() -> None:
    assert PAGE.read_text() == render(), "python -m tests.streams.worker.page"
    again = "python -m tests.streams.worker.metrics_page"
    assert metrics_page.PAGE.read_text() == metrics_page.render(), again


def test_clients_wait_at_the_start_as_long_as_the_task_timeout_says() -> None:
    """Five minutes by default, and no less than the clients wait by themselves."""
    name = "default.api.timeout.ms"

    assert app_settings({}).patient("admin")[name] == "300000"
    assert app_settings({}).patient("producer")["max.block.ms"] == "300000"
    assert app_settings({"task.timeout.ms": 0}).patient("admin")[name] == "60000"
    assert app_settings({"task.timeout.ms": 400_000}).patient("restore.consumer")[name] == "400000"
    assert app_settings({"admin.default.api.timeout.ms": 5000}).patient("admin")[name] == "5000"
    assert app_settings({name: 7000}).patient("global.consumer")[name] == "7000"


def test_a_running_worker_is_not_ended_by_the_time_for_the_start_of_its_cluster() -> None:
    name = "start.timeout.ms"
    for given in ({}, {name: "30000"}, {f"restore.consumer.{name}": "1"}):
        assert app_settings(given).patient("restore.consumer")[name] == "300000"
        assert app_settings(given).of_running("consumer")[name] == "300000"
    first = app_settings({name: "30000"}).patient("admin", is_first=True)
    assert first[name] == "30000", "the first client waits for a cluster that is not up yet"
    assert app_settings({name: "400000"}).patient("producer")[name] == "400000"
    assert app_settings({name: "soon"}).patient("producer")[name] == "soon", "the client refuses it"


def test_each_client_gets_what_it_knows_and_its_own_wins() -> None:
    given = app_settings(
        {
            "commit.interval.ms": 7,
            "bootstrap.servers": "a:1",
            "linger.ms": 3,
            "session.timeout.ms": 9000,
            "request.timeout.ms": 1000,
            "producer.request.timeout.ms": 2000,
            "consumer.fetch.max.wait.ms": 5,
            "consumer.group.instance.id": "me",
        }
    )

    assert given.own[commit_interval_ms] == 7
    assert given.of("producer") == {
        "bootstrap.servers": "a:1",
        "linger.ms": "3",
        "request.timeout.ms": "2000",
    }
    assert given.of("admin") == {"bootstrap.servers": "a:1", "request.timeout.ms": "1000"}
    assert given.of("consumer")["session.timeout.ms"] == "9000"
    assert given.of("consumer")["group.instance.id"] == "me"
    assert given.of("restore.consumer")["fetch.max.wait.ms"] == "5"
    assert "group.instance.id" not in given.of("restore.consumer")


def test_tags_tell_a_streams_group_where_a_worker_is() -> None:
    given = {"group.protocol": "streams", "client.tag.zone": "a"}
    settings = app_settings(given)
    assert settings.tags == {"zone": "a"}
    assert "client.tag.zone" not in settings.of("consumer")

    for wrong, what in (
        ({"client.tag.zone": "a"}, "needs group.protocol=streams"),
        ({**given, "client.tag.moldau.start": "a"}, "does not begin with moldau."),
        ({**given, "client.tag.": "a"}, "must have a name"),
        ({**given, "client.tag.zone": ""}, "and a value"),
    ):
        with pytest.raises(BadSettings, match=re.escape(what)):
            app_settings(wrong)


def test_each_worker_of_a_process_is_a_static_member_of_its_own_in_a_streams_group() -> None:
    static = app_settings({"group.protocol": "streams", "group.instance.id": "me"})
    named = [static.of_worker(index).of("consumer")["group.instance.id"] for index in range(2)]
    assert named == ["me-1", "me-2"]

    for given in ({"group.protocol": "streams"}, {"group.instance.id": "me"}):
        settings = app_settings(given)
        assert settings.of_worker(1) == settings
        assert "group.instance.id" not in settings.of("restore.consumer"), "it is in no group"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (100, 1000)),
        ({"processing.guarantee": "at_least_once"}, (1000, 1000)),
        ({"commit.interval.ms": 100}, (100, 100)),
        ({"commit.interval.ms": 30_000, "producer.transaction.timeout.ms": 60_000}, (30_000,) * 2),
        ({"producer.transaction.timeout.ms": 1200}, (100, 400)),
        ({"producer.transaction.timeout.ms": 120}, (100, 100)),
    ],
)
def test_only_the_default_interval_of_commits_is_longer_for_a_worker_that_is_behind(
    given: dict[str, object], expected: tuple[int, int]
) -> None:
    settings = app_settings({"bootstrap.servers": "a:1", **given})
    assert (settings.commit_interval_ms, settings.commit_interval_ms_max) == expected


def test_a_bad_value_is_told_by_its_name() -> None:
    with pytest.raises(BadSettings, match=r"commit\.interval\.ms"):
        app_settings({"commit.interval.ms": "soon"})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("commit.intervall.ms", "commit.interval.ms"),
        ("procesing.guarantee", "processing.guarantee"),
    ],
)
def test_a_misspelt_setting_of_an_app_gets_the_name_of_the_apps_own(name: str, near: str) -> None:
    with pytest.raises(BadSettings, match=f"did you mean {near}"):
        app_settings({name: "1"})


def test_a_name_that_is_nearer_to_a_client_s_is_left_to_the_clients() -> None:
    assert app_settings({"linger.msec": "1"}).of("producer")["linger.msec"] == "1"


@pytest.mark.parametrize(
    "name",
    [
        "group.id",
        "enable.auto.commit",
        "consumer.partition.assignment.strategy",
        "consumer.group.protocol",
    ],
)
def test_what_the_app_chooses_itself_is_refused(name: str) -> None:
    with pytest.raises(BadSettings, match="cannot be chosen"):
        app_settings({name: "roundrobin"})
