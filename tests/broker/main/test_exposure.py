"""Which addresses are this machine's own alone, and what is refused at the others."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2
import pytest

from moldau.broker.main.broker_command import command
from moldau.broker.main.exposure import exposed, insecure_layer, refuse_exposed
from moldau.broker.main.given import settings_given
from moldau.broker.settings import Listener, broker_settings, read_listeners
from moldau.config import Settings, overrides
from moldau.errors import ConfigError
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real_files import RealFiles
from moldau.testing.container import broker_words
from tests.broker.main.processes import broker_process, finished
from tests.testing.images import compose, compose_files, image


@pytest.mark.parametrize(
    ("host", "is_exposed"),
    [
        ("localhost", False),
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("::1", False),
        ("", True),
        ("0.0.0.0", True),  # noqa: S104 (as people write it)
        ("::", True),
        ("10.0.0.1", True),
        ("kafka.example.com", True),
    ],
)
def test_a_listener_is_exposed_unless_only_this_machine_reaches_it(
    host: str, is_exposed: bool
) -> None:
    listener = Listener("OUT", host, 9092, "PLAINTEXT")
    assert exposed([listener]) == ([listener] if is_exposed else [])


def test_what_is_encrypted_is_not() -> None:
    assert exposed([Listener("OUT", "", 9092, "SASL_SSL")]) == []


def started(words: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings of `moldau broker start` with these words behind it, if it starts."""
    parser = ArgumentParser()
    command.configure(parser)
    arguments = parser.parse_args(["start", *words])
    settings = settings_given(
        arguments,
        environment,
        RealFiles(),
        arguments.listen,
        is_image=arguments.kafka_environment,
    )
    settings = settings.overlaid(insecure_layer(arguments, settings))
    refuse_exposed(settings)
    return settings


CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


def test_a_plaintext_listener_of_the_network_is_refused_by_name_and_address() -> None:
    with pytest.raises(ConfigError) as caught:
        started(["--listen", ":19092"], {})
    assert caught.value.context == {"listener": "PLAINTEXT", "address": "every address:19092"}
    assert "localhost" in caught.value.reason
    assert "--insecure or moldau.listeners.insecure=true" in caught.value.reason

    with pytest.raises(ConfigError) as caught:
        refuse_exposed(broker_settings(overrides(dict(CONTROLLER))))
    assert caught.value.context == {"listener": "CONTROLLER", "address": "every address:9093"}


@pytest.mark.parametrize("words", [
    ("--insecure",),
    ("--set", "moldau.listeners.insecure=true"),
])  # fmt: skip
def test_a_user_can_ask_for_it(words: Sequence[str]) -> None:
    started(["--listen", ":19092", *words], {})


def test_the_environment_of_apache_kafka_asks_for_it_unless_a_setting_says_otherwise() -> None:
    words = ["--kafka-environment", "--data", "/data"]
    started(words, {})
    with pytest.raises(ConfigError, match="--insecure"):
        started(words, {"MOLDAU_MOLDAU_LISTENERS_INSECURE": "false"})


def test_what_the_image_and_its_compose_files_start_is_not_refused() -> None:
    commands: list[tuple[tuple[str, ...], Mapping[str, str]]] = [
        (image().command, image().variables),
        (tuple(broker_words("localhost", 9092)[1:]), {}),
    ]
    for name in compose_files():
        for spec in compose(name)["services"].values():
            commands.append((tuple(spec.get("command", ())), spec.get("environment", {})))
    brokers = [each for each in commands if each[0][:2] == ("broker", "start")]
    assert len(brokers) == 8
    for words, environment in brokers:
        settings = started(words[2:], environment)
        assert exposed(read_listeners(settings).bound), words


@pytest.mark.real
def test_metrics_with_a_token_are_read_by_no_other_client(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("scrape-token\n")
    config = tmp_path / "http.properties"
    config.write_text(f"http.tokens.file={tmp_path}/tokens\n")
    (port,) = free_ports(1)
    words = ("--metrics", f"127.0.0.1:{port}", "--set", f"moldau.metrics.http.config={config}")
    with broker_process(tmp_path, *words) as broker, httpx2.Client(trust_env=False) as client:
        url = f"http://127.0.0.1:{port}"
        assert client.get(f"{url}/metrics").status_code == 401
        found = client.get(f"{url}/metrics", headers={"Authorization": "Bearer scrape-token"})
        assert (found.status_code, "kafka_server" in found.text) == (200, True)
        assert client.get(f"{url}/readyz").status_code == 200
        assert "open to everyone" not in broker.stop()[1]


@pytest.mark.real
def test_a_live_broker_is_asked_what_is_open(tmp_path: Path) -> None:
    """It tells what it was given, also that nothing is denied, which its log says at the start."""
    audit = tmp_path / "audit.jsonl"
    dry_run = (
        *("--set", "authorizer.class.name=standard", "--set", "super.users=User:ANONYMOUS"),
        *("--set", "moldau.authorizer.dry.run=true", "--set", f"moldau.audit.log={audit}"),
    )
    check = ("security", "check", "--bootstrap")
    with broker_process(tmp_path, *dry_run) as broker:
        address = f"{broker.host}:{broker.port}"
        code, out, err = finished(*check, address, "--json", home=tmp_path)
        assert (code, err) == (1, "")
        found = {each["setting"]: each["what"] for each in json.loads(out)}
        assert set(found) == {"listener.security.protocol.map", "moldau.authorizer.dry.run"}
        assert all(each.startswith("broker 1: ") for each in found.values())
        code, out, err = finished(*check, address, "--data", "x", home=tmp_path)
        assert (code, out) == (2, "")
        assert "give them, or --bootstrap" in err
        assert "it is a dry run setting=moldau.authorizer.dry.run" in broker.stop()[1]
