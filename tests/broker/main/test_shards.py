"""What the shards of a host are started with, and their life as processes."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentParser
from pathlib import Path
from random import Random

import pytest

from moldau.broker.controller.placement import Candidate, place
from moldau.broker.main.broker_command import command
from moldau.broker.main.shard_supervisor import shard_layer, shard_words
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings
from moldau.client.sync import Admin, NewTopic, Producer
from moldau.config import Settings, overrides
from moldau.errors import ConfigError
from moldau.runtime.node_processes import free_ports_in_row
from tests.broker.main.processes import moldau
from tests.peers.eventually import eventually

ALONE = broker_settings(standalone_layer("/data", "localhost", 9092))


def of_a_cluster(**given: str) -> Settings:
    said = {
        "process.roles": "broker,controller",
        "node.id": "10",
        "listeners": "PLAINTEXT://h1:9092,CONTROLLER://h1:9099",
        "advertised.listeners": "PLAINTEXT://public:19092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "10@h1:9099,20@h2:9099",
        "log.dirs": "/a,/b",
        "metadata.log.dir": "/m",
    }
    return broker_settings(
        overrides({**said, **{name.replace("_", "."): value for name, value in given.items()}})
    )


def values(settings: Settings, number: int, *, is_standalone: bool) -> dict[str, object]:
    layer = shard_layer(settings, number, 2, is_standalone=is_standalone)
    return {each.name: each.value for each in layer}


def test_by_themselves_the_first_is_the_controller_of_all() -> None:
    first = values(ALONE, 0, is_standalone=True)
    second = values(ALONE, 1, is_standalone=True)
    assert first["listeners"] == "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9094"
    assert second["listeners"] == "PLAINTEXT://localhost:9093"
    assert (first["node.id"], second["node.id"]) == ("1", "2")
    assert (first["log.dirs"], second["log.dirs"]) == ("/data/shard-0", "/data/shard-1")
    assert first["broker.rack"] == second["broker.rack"] == "host-1"
    assert second["process.roles"] == "broker"
    voters = "controller.quorum.voters"
    assert first[voters] == second[voters] == "1@localhost:9094"
    for number in (0, 1):
        ALONE.overlaid(shard_layer(ALONE, number, 2, is_standalone=True))  # they hold together


def test_a_file_describes_the_first_shard() -> None:
    settings = of_a_cluster()
    first = values(settings, 0, is_standalone=False)
    second = values(settings, 1, is_standalone=False)
    assert first["listeners"] == "PLAINTEXT://h1:9092,CONTROLLER://h1:9099"
    assert first["broker.rack"] == "host-10"
    assert "process.roles" not in first
    assert second["listeners"] == "PLAINTEXT://h1:9093"
    assert second["advertised.listeners"] == "PLAINTEXT://public:19093"
    assert second["log.dirs"] == "/a/shard-1,/b/shard-1"
    assert second["metadata.log.dir"] == "/m/shard-1"
    assert "controller.quorum.voters" not in second
    settings.overlaid(shard_layer(settings, 1, 2, is_standalone=False))


def test_a_rack_that_was_given_stays() -> None:
    settings = of_a_cluster(broker_rack="zone-a")
    assert values(settings, 1, is_standalone=False)["broker.rack"] == "zone-a"


def test_each_shard_serves_metrics_registry_and_console_at_a_port_of_its_own() -> None:
    given = {
        "moldau.metrics.listener": "9404",
        "moldau.registry.listener": "0.0.0.0:8081",
        "moldau.registry.advertised": "h1:8081",
        "moldau.console.listener": "127.0.0.1:8080",
    }
    found = values(of_a_cluster(**given), 1, is_standalone=False)
    assert {name: found[name] for name in given} == {
        "moldau.metrics.listener": "9405",
        "moldau.registry.listener": "0.0.0.0:8082",
        "moldau.registry.advertised": "h1:8082",
        "moldau.console.listener": "127.0.0.1:8081",
    }


def test_a_shard_gets_every_option_of_the_command() -> None:
    parser = ArgumentParser()
    command.configure(parser)
    words = (
        *("--config", "server.properties", "--set", "a=b", "--data", "/data", "--listen", "9092"),
        *("--metrics", "9404", "--otlp", "http://h:4318", "--registry", "127.0.0.1:8081"),
        *("--console", "127.0.0.1:8080", "--cluster-id", "ID", "--shards", "2"),
        *("--log-level", "debug", "--log-json", "--insecure", "--kafka-environment"),
    )
    given = parser.parse_args(["start", *words])
    usual = vars(parser.parse_args(["start"]))
    assert {name for name in usual if usual[name] == getattr(given, name)} == {"action", "shard"}

    assert parser.parse_args(shard_words(given, "ID")[1:]) == given


@pytest.mark.parametrize("name", ["moldau.audit.log", "moldau.console.audit"])
def test_each_shard_has_an_audit_log_of_its_own(name: str) -> None:
    settings = of_a_cluster(**{name: "/var/log/audit.jsonl"})
    assert name not in values(settings, 0, is_standalone=False)
    second = values(settings, 1, is_standalone=False)
    assert second[name] == "/var/log/audit.jsonl.shard-1"


def test_ports_that_two_need_are_refused() -> None:
    settings = of_a_cluster(listeners="PLAINTEXT://h1:9092,CONTROLLER://h1:9093")
    with pytest.raises(ConfigError, match="behind the ports of all shards"):
        shard_layer(settings, 0, 2, is_standalone=False)


def test_no_partition_has_two_replicas_on_one_host_while_there_are_others() -> None:
    hosts = {1: "host-1", 2: "host-1", 3: "host-1", 10: "host-10", 11: "host-10", 20: "host-20"}
    candidates = [Candidate(number, rack, is_fenced=False) for number, rack in hosts.items()]
    for seed in range(20):
        for replicas in place(30, 3, candidates, Random(seed)):
            assert {hosts[each] for each in replicas} == {"host-1", "host-10", "host-20"}


@pytest.mark.real
def test_two_shards_are_one_cluster_by_one_command(tmp_path: Path) -> None:
    port = free_ports_in_row(5)
    data = tmp_path / "data"
    words = ["broker", "start", "--shards", "2", "--listen", str(port), "--data", str(data)]
    words += ["--metrics", f"localhost:{port + 3}"]  # a node says first where they are
    servers = f"localhost:{port}"
    for round_number in range(2):  # the second one finds the data of the first
        process = moldau(*words, home=tmp_path)
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3)]
            if not lines[-1]:
                raise AssertionError(f"{lines}{process.communicate(timeout=60)[1]}")
            for number, line in enumerate(lines[:2]):
                shard = f"shard {number} is up at localhost:{port + number}"
                assert line == f"{shard}, data {data}/shard-{number}\n"
            assert lines[-1] == "Ctrl-C stops all.\n"
            with Admin(bootstrap_servers=servers) as admin:
                eventually(
                    lambda: {each.node_id for each in admin.describe_cluster().brokers} == {1, 2},
                    within_s=60,
                )
                if not round_number:
                    admin.create_topics([NewTopic("t", 4, 2)])
            with Producer(bootstrap_servers=servers, acks="all") as producer:
                for number in range(4):
                    producer.send("t", b"%d" % number, partition=number)
                producer.flush()
            process.send_signal(signal.SIGTERM)
            out, log = process.communicate(timeout=120)
            assert process.returncode == 0
            assert out == "stops all shards\n"
            assert log.count("broker is closed") == 2
            assert " ERROR " not in log
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=60)
    fewer = moldau("broker", "start", "--data", str(data), "--listen", str(port), home=tmp_path)
    _, told = fewer.communicate(timeout=60)
    assert fewer.returncode == 2
    assert "not formatted and holds other files" in told


@pytest.mark.real
@pytest.mark.deep
def test_a_killed_shard_is_started_again(tmp_path: Path) -> None:
    port = free_ports_in_row(3)
    words = ["broker", "start", "--shards", "2", "--listen", str(port), "--data", "data"]
    process = moldau(*words, home=tmp_path)
    try:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[1]), signal.SIGKILL)
        assert "shard 1 ended with code -9" in process.stdout.readline()
        assert "shard 1 is up" in process.stdout.readline()
        process.kill()  # its shards end with it
        first = Path(f"/proc/{children[0]}")
        eventually(lambda: not first.exists(), within_s=60)
    finally:
        process.kill()
        process.communicate(timeout=60)
