"""What the shards of a host are started with, and their life as processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from moldau.broker.controller.placement import Candidate, place
from moldau.broker.main.broker_command import command
from moldau.broker.main.given import settings_given
from moldau.broker.main.process import shards_of
from moldau.broker.main.shard_count import (
    OnDisk,
    by_cores,
    decided_count,
    is_planned,
    on_disk,
    shard_count,
)
from moldau.broker.main.shard_supervisor import shard_layer, shard_words
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings
from moldau.client.sync import Admin, Consumer, NewTopic, Producer, Topic
from moldau.config import Settings, overrides
from moldau.errors import ConfigError
from moldau.ids import format_uuid
from moldau.runtime import process_figures
from moldau.runtime.node_processes import free_ports_in_row
from moldau.runtime.real_files import RealFiles
from tests.broker.exposition.scraped import Scraped
from tests.broker.main.processes import answer, moldau
from tests.cli.shell import Shell
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


def test_the_first_shard_alone_has_the_addresses_of_services() -> None:
    given = {
        "moldau.metrics.listener": "9404",
        "moldau.registry.listener": "0.0.0.0:8081",
        "moldau.registry.advertised": "h1:8081",
        "moldau.console.listener": "127.0.0.1:8080",
    }
    first = values(of_a_cluster(**given), 0, is_standalone=False)
    second = values(of_a_cluster(**given), 1, is_standalone=False)
    assert not first.keys() & given.keys()
    assert {name: second[name] for name in given} == dict.fromkeys(given, "")


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


def test_a_shard_knows_all_shards_of_its_host() -> None:
    assert list(shards_of(Namespace(shard=2, shards=4), 12)) == [10, 11, 12, 13]
    assert list(shards_of(Namespace(shard=None, shards=1), 7)) == []


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


@pytest.mark.parametrize(
    ("cores", "count"), [(1, 1), (2, 1), (3, 2), (4, 3), (8, 6), (16, 12), (64, 48), (192, 64)]
)
def test_three_of_four_cores_get_a_shard(cores: int, count: int) -> None:
    assert by_cores(cores) == count


EMPTY = OnDisk()
SINGLE = OnDisk(single="/data")
THREE = OnDisk(3, "/data/shard-2")
COUNTS: dict[str, tuple[int | str | None, OnDisk, bool, int]] = {
    "an empty directory goes by cores": (None, EMPTY, False, 6),
    "a planned node is one broker": (None, EMPTY, True, 1),
    "who plans may ask for the cores": ("auto", EMPTY, True, 6),
    "one broker's data stay one broker's": (None, SINGLE, False, 1),
    "so they do if auto is asked for": ("auto", SINGLE, False, 1),
    "shards on disk are all started": (None, THREE, False, 3),
    "so they are where a file plans the node": (None, THREE, True, 3),
    "a number counts": (4, EMPTY, False, 4),
    "and may grow": (4, THREE, False, 4),
    "one is one": (1, EMPTY, False, 1),
}


@pytest.mark.parametrize("case", COUNTS)
def test_the_disk_decides_before_the_cores(case: str) -> None:
    given, found, planned, count = COUNTS[case]
    decided = shard_count(given, found, 8, is_planned=planned, free_ports=lambda count: count)
    assert decided.count == count
    assert decided.is_sharded == (count > 1)


NOTES: dict[str, tuple[int | str | None, OnDisk, bool, str]] = {
    "one broker on eight cores": (None, SINGLE, False, "/data was made with one broker"),
    "a planned one is not told of it": (None, SINGLE, True, ""),
    "fewer shards than cores": (None, THREE, False, "--shards 6 uses more of the 8 cores"),
    "new shards": (5, THREE, False, "shards 3 to 4 are new: `moldau cluster balance --execute`"),
    "a new shard": (4, THREE, False, "shard 3 is new"),
    "nothing to say": (None, EMPTY, False, ""),
}


@pytest.mark.parametrize("case", NOTES)
def test_a_line_says_what_the_user_might_not_expect(case: str) -> None:
    given, found, planned, note = NOTES[case]
    decided = shard_count(given, found, 8, is_planned=planned, free_ports=lambda count: count)
    assert note in decided.note
    assert bool(note) == bool(decided.note)


def test_a_port_in_use_leaves_fewer_shards_and_a_line() -> None:
    for free, many in ((4, "4 shards"), (1, "one shard")):
        decided = shard_count(None, EMPTY, 8, is_planned=False, free_ports=partial(min, free))
        assert decided.count == free
        assert decided.note.startswith(f"{many} for 8 cores: more would need a port")
        assert decided.is_sharded == (free > 1)


OPEN: dict[str, tuple[int | str | None, OnDisk, int, int, str]] = {
    "an empty directory": (
        None,
        EMPTY,
        16,
        1,
        "one shard uses one of 16 cores: in an empty directory --shards auto runs 12, and takes "
        "the ports 9092 to 9104",
    ),
    "few cores": (None, EMPTY, 2, 1, ""),
    "one broker's data": (None, SINGLE, 16, 1, "one shard, as /data was made with one broker"),
    "one shard is asked for": (1, EMPTY, 16, 1, ""),
    "auto is asked for": ("auto", EMPTY, 16, 12, ""),
}


@pytest.mark.parametrize("case", OPEN)
def test_a_listener_of_the_network_keeps_one_shard_and_a_line_says_so(case: str) -> None:
    given, found, cores, count, note = OPEN[case]
    for planned in (False, True):
        decided = shard_count(
            given, found, cores, is_planned=planned, free_ports=lambda count: count, open_port=9092
        )
        assert decided.count == count
        assert decided.note.startswith("" if planned else note)
        assert bool(decided.note) == bool(note and not planned)


def test_the_line_of_an_open_listener_names_the_ports_that_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_figures, "core_count", lambda: 4)
    port = free_ports_in_row(4)
    listen = ("--data", str(tmp_path / "data"), "--listen", f":{port}")

    def note(
        *more: str, words: tuple[str, ...] = listen, variables: Mapping[str, str] | None = None
    ) -> str:
        decided = decided_count(started_with(*words, *more), variables or {})
        assert decided.count == 1
        return decided.note

    assert note().endswith(f"runs 3, and takes the ports {port} to {port + 3}")
    with socket.create_server(("", port + 3)):
        assert note().endswith(f"runs 2, and takes the ports {port} to {port + 2}")
    with socket.create_server(("", port + 1)):
        assert note() == ""
    assert note("--shards", "1") == note("--set", "node.id=4") == ""
    advertised = {"MOLDAU_ADVERTISED_LISTENERS": f"PLAINTEXT://h1:{port}"}
    assert note(variables=advertised) == ""
    assert note("--kafka-environment", words=()) == ""
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/data\n"
        f"listeners=PLAINTEXT://:{port},CONTROLLER://localhost:{port + 4}\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@localhost:{port + 4}\n"
    )
    assert note("--config", str(file), words=()) == ""


def started_with(*words: str) -> Namespace:
    """The arguments of a start."""
    parser = ArgumentParser()
    command.configure(parser)
    return parser.parse_args(["start", *words])


def test_shards_leave_the_ports_of_the_node_s_services_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_figures, "core_count", lambda: 8)
    port = free_ports_in_row(7)
    words = ("--data", str(tmp_path), "--listen", str(port))
    assert decided_count(started_with(*words), {}).count == 6
    for option in ("--metrics", "--registry", "--console"):
        given = started_with(*words, option, f"localhost:{port + 4}")
        assert decided_count(given, {}).count == 3  # and the controller
    variable = {"MOLDAU_MOLDAU_METRICS_LISTENER": f"localhost:{port + 4}"}
    assert decided_count(started_with(*words), variable).count == 3
    with socket.create_server(("localhost", port + 3)):
        decided = decided_count(started_with(*words), {})
    assert decided.count == 2
    assert decided.note.startswith("2 shards for 8 cores: more would need a port that is in use")


def test_a_node_that_is_only_a_controller_has_no_shards(tmp_path: Path) -> None:
    settings = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "log.dirs": str(tmp_path),
    }
    file = tmp_path / "controller.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    assert decided_count(started_with("--config", str(file)), {}).count == 1
    with pytest.raises(ConfigError, match="only a controller: leave out --shards"):
        decided_count(started_with("--config", str(file), "--shards", "2"), {})


def test_no_data_are_left_out() -> None:
    for given, found, reason in (
        (2, THREE, "data of shard 2: start as many shards as before"),
        (1, THREE, "data of shard 2"),
        (2, SINGLE, "the data of a node without shards"),
    ):
        with pytest.raises(ConfigError, match=reason):
            shard_count(given, found, 8, is_planned=False, free_ports=lambda count: count)


PLANS: dict[str, tuple[tuple[str, ...], dict[str, str], bool]] = {
    "nothing said": ((), {}, False),
    "a port of this machine": (("--listen", "19092"), {}, False),
    "another setting": (("--set", "num.partitions=3"), {}, False),
    "the next port that is free": (("--listen", "0"), {}, True),
    "an address of the network": (("--listen", ":9092"), {}, False),
    "an id": (("--set", "node.id=4"), {}, True),
    "a variable": ((), {"MOLDAU_ADVERTISED_LISTENERS": "PLAINTEXT://h1:9092"}, True),
    "another image's environment": (("--kafka-environment",), {}, True),
}


@pytest.mark.parametrize("case", PLANS)
def test_whoever_says_where_a_node_is_has_planned_it(case: str, tmp_path: Path) -> None:
    words, environment, planned = PLANS[case]
    arguments = started_with("--data", str(tmp_path), *words)
    settings = settings_given(
        arguments,
        environment,
        RealFiles(),
        arguments.listen,
        is_image=arguments.kafka_environment,
    )
    assert is_planned(arguments, settings) is planned


def test_what_is_on_disk_is_found_in_every_directory(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    settings = broker_settings(
        standalone_layer("/data", "localhost", 9092), overrides({"log.dirs": f"{one},{two}"})
    )
    files = RealFiles()
    assert on_disk(files, settings) == OnDisk()
    (one / "shard-0").mkdir(parents=True)
    (two / "shard-10").mkdir(parents=True)
    (two / "shard-2").mkdir()
    assert on_disk(files, settings) == OnDisk(11, f"{two}/shard-10")
    (two / "meta.properties").write_text("")
    assert on_disk(files, settings) == OnDisk(single=str(two))


FOUR_CORES = (
    "import moldau.runtime.process_figures as figures;"
    "figures.core_count = lambda: 4;"
    "from moldau.cli import main; raise SystemExit(main())"
)


def started(*words: str, home: Path) -> subprocess.Popen[str]:
    """`moldau` on a machine with four cores."""
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", FOUR_CORES, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": ""},
        cwd=home,
    )


def lines_until_up(process: subprocess.Popen[str]) -> list[str]:
    """What it says until it is up."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if line.startswith("Ctrl-C"):
            return lines
    raise AssertionError(f"{lines}{process.communicate(timeout=60)[1]}")


def leaders_of_groups(servers: str) -> Counter[int]:
    """How many partitions with groups each shard leads. The registry in shard 0 makes them."""
    with Admin(bootstrap_servers=servers) as admin:

        def offsets() -> object:
            return admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"]

        eventually(lambda: isinstance(offsets(), Topic))
        described = offsets()
    assert isinstance(described, Topic)
    return Counter(each.leader for each in described.partitions)


@pytest.mark.real
def test_a_host_with_four_cores_is_one_node_of_three_shards(tmp_path: Path) -> None:
    port = free_ports_in_row(6)
    data, metrics = tmp_path / "data", f"localhost:{port + 4}"
    words = ["broker", "start", "--listen", str(port), "--data", str(data), "--metrics", metrics]
    words += ["--registry", f"localhost:{port + 5}"]
    process = started(*words, home=tmp_path)
    servers = f"localhost:{port}"
    try:
        lines = lines_until_up(process)
        facts = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
        assert lines[0] == f"metrics at http://{metrics}/metrics"
        assert facts["bootstrap"] == servers
        assert facts["data"] == str(data)
        assert facts["shards"] == f"3, at {servers} to {port + 2}"
        assert len([each for each in lines if not each.startswith("registry at ")]) == 8
        status, text = answer(f"{metrics}/readyz")
        assert status == 200
        states = [line for line in text.splitlines() if line.startswith("shard")]
        assert states == [f"shard {n}: running" for n in range(3)]

        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", 6, 1)])
            described = admin.describe_topics(["t"])["t"]
            assert not isinstance(described, Exception)
            leaders = Counter(each.leader for each in described.partitions)
        coordinators = leaders_of_groups(servers)
        assert leaders == {1: 2, 2: 2, 3: 2}
        assert max(coordinators.values()) - min(coordinators.values()) <= 1
        assert coordinators.keys() == {1, 2, 3}
        with Producer(bootstrap_servers=servers, acks="all") as producer:
            for number in range(6):
                producer.send("t", b"%d" % number, partition=number)
            producer.flush()
        with Consumer(
            bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["t"])
            assert len(list(islice(consumer, 6))) == 6
            consumer.commit()

        page = Scraped(answer(f"{metrics}/metrics")[1])
        assert page.labelled("process_cpu_seconds_total", "shard").keys() == {"0", "1", "2"}
        written = page.values["kafka_topic_partition_current_offset"]
        assert sum(written[labels] for labels in written if ("topic", "t") in labels) == 6
        lags = page.values["kafka_consumergroup_lag"]
        assert len(lags) == 6  # whatever shard coordinates the group
        assert set(lags.values()) == {0}

        described_host = Shell(servers).good("cluster", "describe").rows
        assert ["1-3", f"{servers}-{port + 2}", "host-1", "3", "shards,", "all", "up", "yes"] in (
            described_host
        )
        process.send_signal(signal.SIGTERM)
        out, log = process.communicate(timeout=120)
        assert process.returncode == 0
        assert out.removeprefix(f"registry at http://localhost:{port + 5}\n") == ""
        assert log.count("broker is closed") == 3
        assert " ERROR " not in log
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=60)
    assert sorted(each.name for each in data.iterdir()) == ["shard-0", "shard-1", "shard-2"]
    fewer = started("broker", "start", "--shards", "1", "--data", str(data), home=tmp_path)
    _, told = fewer.communicate(timeout=60)
    assert fewer.returncode == 2
    assert "there are data of shard 2: start as many shards as before" in told


@pytest.mark.real
@pytest.mark.deep
def test_a_file_that_names_its_own_controller_alone_runs_as_shards(tmp_path: Path) -> None:
    port = free_ports_in_row(3)
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/data\n"
        f"listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{port + 2}\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=localhost:{port + 2}\n"
    )
    words = ["broker", "start", "--config", str(path), "--shards", "2", "--cluster-id"]
    process = started(*words, format_uuid(b"a" * 16), home=tmp_path)
    try:
        shards = next(each for each in lines_until_up(process) if each.startswith("  shards "))
        assert shards == f"  shards     2, at localhost:{port} to {port + 1}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


@pytest.mark.real
@pytest.mark.deep
def test_shards_on_disk_come_back_and_grow_and_have_what_they_had(tmp_path: Path) -> None:
    port = free_ports_in_row(4)
    servers = f"localhost:{port}"
    words = ["broker", "start", "--listen", str(port), "--data", str(tmp_path / "data")]
    rounds = ((("--shards", "2"), 2), ((), 2), (("--shards", "3"), 3))
    for number, (more, count) in enumerate(rounds):
        process = started(*words, *more, home=tmp_path)
        try:
            lines = lines_until_up(process)
            assert any(line.startswith(f"  shards     {count}, ") for line in lines)
            assert ("shard 2 is new" in lines[0]) == (count == 3)
            with Admin(bootstrap_servers=servers) as admin:
                if not number:
                    admin.create_topics([NewTopic("t", 4, 1)])
            with Producer(bootstrap_servers=servers, acks="all") as producer:
                for partition in range(4):
                    producer.send("t", b"%d" % number, partition=partition)
                producer.flush()
            if count == 3:
                assert Shell(servers)("cluster", "balance", "--execute").code == 0
                with Admin(bootstrap_servers=servers) as admin:
                    described = admin.describe_topics(["t"])["t"]
                    assert not isinstance(described, Exception)
                    assert {each.leader for each in described.partitions} == {1, 2, 3}
                assert len(Shell(servers).good("consume", "t").out.split()) == 4 * len(rounds)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)


@pytest.mark.real
@pytest.mark.deep
def test_a_killed_shard_is_started_again(tmp_path: Path) -> None:
    port = free_ports_in_row(4)
    words = ["broker", "start", "--shards", "2", "--listen", str(port), "--data", "data"]
    metrics = f"localhost:{port + 3}"
    process = moldau(*words, "--metrics", metrics, home=tmp_path)
    try:
        lines_until_up(process)
        assert process.stdout is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[1]), signal.SIGKILL)
        assert "shard 1 ended with signal 9" in process.stdout.readline()
        status, text = answer(f"{metrics}/readyz")
        assert status == 503
        assert "shard 0: running\nshard 1: " in text
        assert answer(f"{metrics}/healthz")[0] == 200  # the other shard serves its clients
        assert "shard 1 is up again" in process.stdout.readline()
        eventually(lambda: answer(f"{metrics}/readyz")[0] == 200, within_s=60)
        process.kill()  # its shards end with it
        first = Path(f"/proc/{children[0]}")
        eventually(lambda: not first.exists(), within_s=60)
    finally:
        process.kill()
        process.communicate(timeout=60)
