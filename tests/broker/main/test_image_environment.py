"""A node in a container reads variables and the mounted file as Apache Kafka's image does."""

from __future__ import annotations

import os
import subprocess
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import pytest

from moldau.broker.main.given import settings_given
from moldau.broker.main.image_environment import (
    DEFAULT_CLUSTER_ID,
    cluster_of,
    ignored_variables,
    image_layer,
)
from moldau.broker.server.storage import places_of
from moldau.broker.settings.log import log_retention_hours
from moldau.broker.settings.network import listeners
from moldau.broker.settings.node import node_id
from moldau.cli.command import UsageError
from moldau.config import Settings
from moldau.runtime.real_files import RealFiles
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM

NODE = {
    "KAFKA_NODE_ID": "4",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT://:19092",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "4@localhost:29093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}


def given(environment: Mapping[str, str], *assignments: str, config: str | None = None) -> Settings:
    """As `moldau broker start --kafka-environment --data /data` would."""
    arguments = Namespace(config=config, assignments=list(assignments), data="/data")
    return settings_given(arguments, environment, RealFiles(), is_image=True)


def layer(environment: Mapping[str, str], mounted: Path) -> dict[str, object]:
    found = image_layer(environment, RealFiles(), "/data", str(mounted))
    names = [each.name for each in found]
    assert len(set(names)) == len(names)
    return {each.name: each.value for each in found}


def test_without_variables_it_is_a_standalone_node_that_the_host_reaches() -> None:
    settings = given({})
    assert settings[node_id] == 1
    assert "PLAINTEXT://0.0.0.0:9092" in settings[listeners]
    assert places_of(settings).all == ("/data",)
    assert cluster_of({}) is None


def test_variables_are_all_that_it_has() -> None:
    settings = given({**NODE, "KAFKA_LOG_RETENTION_HOURS": "3"})
    assert settings[node_id] == 4
    assert settings[log_retention_hours] == 3
    assert places_of(settings).all == ("/data",)
    assert cluster_of(NODE) == DEFAULT_CLUSTER_ID
    assert cluster_of({**NODE, "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"}) == "4L6g3nShT-eMCtK--X86sw"


@pytest.mark.parametrize("name", ["KAFKA_LOG_DIRS", "KAFKA_LOG_DIR", "MOLDAU_LOG_DIR"])
def test_a_directory_among_the_variables_replaces_that_of_the_image(name: str) -> None:
    settings = given({**NODE, name: "/elsewhere"})
    assert places_of(settings).all == ("/elsewhere",)


def test_variables_of_moldau_come_after_those_of_kafka() -> None:
    assert (
        given({**NODE, "MOLDAU_NODE_ID": "5", "MOLDAU_CONTROLLER_QUORUM_VOTERS": "5@a:1"})[node_id]
        == 5
    )


def test_what_an_engine_sets_for_a_service_called_kafka_is_ignored() -> None:
    noise = {
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
    }
    assert ignored_variables({**NODE, **noise}) == []
    assert given({**NODE, **noise})[node_id] == 4
    assert given(noise)[node_id] == 1


def test_a_variable_that_looks_like_a_setting_and_is_none_is_told() -> None:
    odd = {
        "KAFKA_LOG_RETENTOIN_HOURS": "3",
        "KAFKA_SSL_KEYSTORE_FILENAME": "secret.jks",
        "KAFKA_ADVERTISED_PORT": "9092",
        "KAFKA_UI_PORT": "tcp://10.0.0.1:80",
    }
    assert given({**NODE, **odd})[node_id] == 4
    port, retention, keystore = ignored_variables({**NODE, **odd})
    assert port.startswith("KAFKA_ADVERTISED_PORT is no setting of a broker and has no effect")
    assert retention.endswith(": did you mean KAFKA_LOG_RETENTION_HOURS?")
    assert keystore.startswith("KAFKA_SSL_KEYSTORE_FILENAME is no setting")
    assert "secret" not in keystore


def test_the_mounted_file_comes_before_variables(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=9\nlog.dirs=/mounted\nprocess.roles=broker\n")
    found = layer({"KAFKA_NODE_ID": "4"}, path)
    assert found == {"node.id": "4", "log.dirs": "/mounted", "process.roles": "broker"}
    assert layer({}, path)["node.id"] == "9"


def test_a_file_on_the_command_line_is_refused() -> None:
    with pytest.raises(UsageError, match="--kafka-environment"):
        given(NODE, config="server.properties")


@pytest.mark.real
@pytest.mark.deep
def test_apache_kafka_writes_the_same_settings_from_the_same_variables(tmp_path: Path) -> None:
    """Its image's own program, which then goes on to format the directory."""
    kafka = fetch_or_skip()
    variables = {
        **NODE,
        "KAFKA_LOG_RETENTION_HOURS": "3",
        "KAFKA_LISTENER_NAME_A__B_SSL_KEYSTORE___PATH": "x",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "-Da=b",
        "KAFKA_JMX_OPTS": "-Dc=d",
        "KAFKA_GC_LOG_OPTS": "",
        "KAFKA_JVM_PERFORMANCE_OPTS": "-server",
        "KAFKA_LOG4J_OPTS": "-De=f",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
        "KAFKA_LOG4J_LOGGERS": "kafka=INFO",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL": "INFO",
        "KAFKA_VERSION": "4.3.1",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "CLUSTER_ID": DEFAULT_CLUSTER_ID,
    }
    folders = {name: tmp_path / name for name in ("default", "mounted", "final")}
    for each in folders.values():
        each.mkdir()
    (folders["default"] / "server.properties").write_text("not.used=1\n")
    log4j = "Configuration: {Appenders: {}, Loggers: {Root: {level: INFO}, Logger: []}}\n"
    for name in ("log4j2.yaml", "tools-log4j2.yaml"):
        (folders["default"] / name).write_text(log4j)
    (folders["mounted"] / "server.properties").write_text("node.id=9\nnum.partitions=3\n")
    words = [f"-{name[0].upper()}={folder}" for name, folder in folders.items()]
    subprocess.run(  # noqa: S603
        [*kafka.command(*TOOL_JVM), "kafka.docker.KafkaDockerWrapper", "setup", *words],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        check=False,
        timeout=300,
    )
    text = (folders["final"] / "server.properties").read_text()
    theirs = dict(line.split("=", 1) for line in text.splitlines() if line.strip())
    ours = layer(variables, folders["mounted"] / "server.properties")
    assert ours == theirs
    assert ours["node.id"] == "4"
