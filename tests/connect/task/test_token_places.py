"""A connector's config names URLs of tokens and files only as far as its worker allows."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from moldau.connect.herder.operations import validated
from moldau.connect.task.clients import settings_for
from moldau.connect.task.messages import TaskSpec
from moldau.connect.task.runner import TaskRunner
from moldau.connect.task.self_running import SelfReadingRunner, SelfWritingRunner
from moldau.connect.task.sink import SinkRunner
from moldau.connect.task.source import SourceRunner
from moldau.connect.task.token_places import (
    ALLOWED_FILES,
    ALLOWED_URLS,
    check_places,
    refused_places,
)
from moldau.connect.worker.settings import complete
from moldau.connect.worker.worker import Worker
from moldau.errors import ConfigError
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.real import run

RUNNERS: tuple[type[TaskRunner], ...] = (
    SourceRunner, SinkRunner, SelfReadingRunner, SelfWritingRunner,
)  # fmt: skip
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a setting
ISSUER = "sasl.oauthbearer.expected.issuer"
URL = "https://id.example.com/token"
KEYCLOAK = "https://id.example.com/realms/shop"
ENTRA = "https://login.microsoftonline.com/tenant/v2.0"
FILES = (
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.template.file",
)


@pytest.mark.parametrize("prefix", ["producer.override.", "source.cluster.", "admin.", ""])
def test_an_endpoint_is_refused_whatever_the_prefix_unless_the_worker_names_it(prefix: str) -> None:
    config = {f"{prefix}{TOKEN_URL}": URL}
    refused = refused_places(config, {})
    assert list(refused) == [f"{prefix}{TOKEN_URL}"]
    assert ALLOWED_URLS in refused[f"{prefix}{TOKEN_URL}"]
    assert refused_places(config, {ALLOWED_URLS: f"https://other/token, {URL}"}) == {}
    assert refused_places(config, {ALLOWED_URLS: f"{URL}/x"}) != {}


def test_a_refusal_shows_no_secret_of_the_url() -> None:
    config = {f"producer.override.{TOKEN_URL}": "https://a:canary@10.0.0.1/x?key=canary"}
    (reason,) = refused_places(config, {}).values()
    assert "https://10.0.0.1/x" in reason
    assert "canary" not in reason


@pytest.mark.parametrize(
    ("config", "worker", "endpoint"),
    [
        (
            {"producer.override.oauth": "Keycloak", f"producer.override.{ISSUER}": KEYCLOAK},
            {},
            f"{KEYCLOAK}/protocol/openid-connect/token",
        ),
        (
            {f"consumer.override.{ISSUER}": ENTRA},
            {"oauth": "entra"},
            "https://login.microsoftonline.com/tenant/oauth2/v2.0/token",
        ),
    ],
)
def test_an_issuer_counts_as_the_endpoint_that_follows_from_it(
    config: dict[str, str], worker: dict[str, str], endpoint: str
) -> None:
    (name,) = refused_places(config, worker)
    assert name.endswith(ISSUER)
    assert refused_places(config, {**worker, ALLOWED_URLS: endpoint}) == {}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused_unless_the_worker_names_it(name: str) -> None:
    config = {f"admin.override.{name}": "/etc/passwd"}
    (reason,) = refused_places(config, {ALLOWED_FILES: "/run/secrets/assertion"}).values()
    assert ALLOWED_FILES in reason
    assert refused_places(config, {ALLOWED_FILES: "/run/x, /etc/passwd"}) == {}


def test_the_settings_of_the_worker_are_free() -> None:
    worker = {TOKEN_URL: URL, f"producer.{FILES[0]}": "/run/assertion", "oauth": "keycloak"}
    assert refused_places({"producer.override.linger.ms": "5"}, worker) == {}
    found = settings_for({}, worker, "producer")
    assert (found[TOKEN_URL], found[FILES[0]]) == (URL, "/run/assertion")


def test_a_client_is_not_made_of_a_place_that_is_not_allowed() -> None:
    name = f"producer.override.{TOKEN_URL}"
    with pytest.raises(ConfigError) as caught:
        check_places({name: URL}, {})
    assert caught.value.context["setting"] == name
    with pytest.raises(ConfigError):
        settings_for({name: URL}, {}, "producer")


@pytest.mark.parametrize("runner", RUNNERS)
def test_no_task_starts_with_a_place_that_its_worker_does_not_allow(
    runner: type[TaskRunner],
) -> None:
    """Also one of a client that the connector makes itself, as a mirror does."""
    config = {"connector.class": "FileStreamSource", f"source.cluster.{TOKEN_URL}": URL}
    places: tuple[dict[str, str], ...] = ({}, {ALLOWED_URLS: "https://other/token"})
    for place in places:
        spec = TaskSpec("c", 0, complete(place, is_distributed=False), config, config)
        with pytest.raises(ConfigError, match="does not name https:"):
            runner(spec, Mock(), Mock(), Mock()).open()


def test_no_connector_starts_with_such_a_place() -> None:
    config = {"connector.class": "FileStreamSource", f"source.cluster.{TOKEN_URL}": URL}

    async def main(runtime: Runtime) -> None:
        worker = Worker(runtime, {}, Loggers(runtime.clock, lambda line: None), Mock())
        with pytest.raises(ConfigError, match="does not name https:"):
            await worker.start_connector("c", config)
        await worker.stop_connector("c")

    run(main)


def test_what_looks_like_a_reference_and_is_none_is_text() -> None:
    name = f"producer.override.{TOKEN_URL}"
    assert refused_places({name: "https://10.0.0.1/${no:reference}"}, {}) != {}


def test_a_config_with_such_a_place_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INNER", URL)
    worker = complete(
        {
            "config.providers": "env",
            "config.providers.env.class": "EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "INNER",
        },
        is_distributed=False,
    )
    name = f"producer.override.{TOKEN_URL}"
    plain = {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}
    for value in (URL, "${env:INNER}", "https://10.0.0.1/${no:reference}"):
        infos = validated({**plain, name: value}, worker, asks=False)
        (wrong,) = [each for each in infos.configs if each.name == name]
        assert any(ALLOWED_URLS in error for error in wrong.errors)
    infos = validated({**plain, name: "${env:INNER}"}, {**worker, ALLOWED_URLS: URL}, asks=False)
    assert not any(ALLOWED_URLS in error for each in infos.configs for error in each.errors)
