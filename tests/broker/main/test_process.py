"""The process: how it comes up, what it prints, how it ends, what is left when it was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import run
from tests.broker.main.processes import (
    END_SECONDS,
    BrokerProcess,
    broker_process,
    finished,
    moldau,
)
from tests.broker.server.wire import wired
from tests.cli.shell import Shell
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real


def produced(broker: BrokerProcess, topic: str, count: int) -> int:
    """Creates the topic if need be and appends records one by one; the last offset."""

    async def scenario(runtime: Runtime) -> int:
        async with wired(runtime, broker.host, broker.port) as wire:
            await wire.create(topic)
            for _ in range(count):
                answer = await wire.produce(topic, [b"value"])
                assert answer.error_code == ErrorCode.NONE
            return answer.base_offset

    return run(scenario)


def fetched(broker: BrokerProcess, topic: str) -> list[bytes]:
    async def scenario(runtime: Runtime) -> list[bytes]:
        async with wired(runtime, broker.host, broker.port) as wire:
            return await wire.fetch_all(topic)

    return run(scenario)


def test_without_settings_it_formats_the_users_directory_and_says_how_to_connect(
    tmp_path: Path,
) -> None:
    with broker_process(tmp_path) as broker:
        directory = tmp_path / ".local/share/moldau/broker"
        assert f"data       {directory}" in broker.text
        assert "(new)" in broker.text
        assert f"moldau topic list --bootstrap 127.0.0.1:{broker.port}" in broker.text
        assert produced(broker, "orders", 5) == 4
        code, log = broker.stop()
    assert code == 0
    assert "Traceback" not in log
    assert "broker is closed" in log
    assert (directory / ".kafka_cleanshutdown").exists()

    with broker_process(tmp_path) as broker:
        assert "(new)" not in broker.text
        assert len(fetched(broker, "orders")) == 5
        assert broker.stop(signal.SIGINT)[0] == 0


def test_a_terminal_that_is_closed_ends_it_in_order(tmp_path: Path) -> None:
    ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests may ignore it
    try:
        with broker_process(tmp_path) as broker:
            code, log = broker.stop(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, ours)
    assert code == 0
    assert "broker is closed" in log
    assert (tmp_path / ".local/share/moldau/broker/.kafka_cleanshutdown").exists()


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_it_serves_and_ends_in_order_whatever_streams_are_closed(
    tmp_path: Path, streams: str
) -> None:
    (port,) = free_ports(1)
    at, shell = f"127.0.0.1:{port}", ("/bin/sh", "-c", f'exec "$@" {streams}', "sh")
    words = ("broker", "start", "--shards", "1", "--listen", at)
    process = moldau(*words, home=tmp_path, by=shell)
    try:
        eventually(lambda: Shell(at)("topic", "create", "t").code == 0)
        process.terminate()
        _, log = process.communicate(timeout=END_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in log
    assert (tmp_path / ".local/share/moldau/broker/.kafka_cleanshutdown").exists()


def test_a_listener_that_is_open_to_others_is_told_once(tmp_path: Path) -> None:
    words = "all that reach this machine can read, write and delete"
    with broker_process(tmp_path) as broker:
        assert words not in broker.stop()[1]
    with broker_process(tmp_path, "--listen", ":0", "--insecure") as broker:
        (line,) = (line for line in broker.stop()[1].splitlines() if words in line)
    assert "WARN" in line
    assert "PLAINTEXT on every address" in line


def killed_under_load(broker: BrokerProcess, topic: str, there: list[bytes], life: int) -> None:
    """Appends to `there` what is acknowledged, until the process is dead."""

    async def load(runtime: Runtime) -> None:
        async with wired(runtime, broker.host, broker.port) as wire:
            await wire.create(topic)
            for number in range(100_000):
                if number == 200:
                    broker.process.kill()
                value = f"{life}-{number}".encode()
                try:
                    answer = await wire.produce(topic, [value])
                except (ConnectionError, asyncio.IncompleteReadError):
                    return
                assert answer.base_offset == len(there)
                there.append(value)

    run(load)
    broker.kill()


def test_after_kill_under_load_all_that_was_acknowledged_is_there(tmp_path: Path) -> None:
    acknowledged: list[bytes] = []
    for life in range(3):
        with broker_process(tmp_path) as broker:
            found = fetched(broker, "orders") if life else []
            assert found[: len(acknowledged)] == acknowledged
            acknowledged = found
            killed_under_load(broker, "orders", acknowledged, life)
            assert len(acknowledged) >= 200 * (life + 1)


def test_settings_without_meaning_are_told_once_and_what_is_unbuilt_is_refused(
    tmp_path: Path,
) -> None:
    with broker_process(tmp_path, "--set", "num.io.threads=9") as broker:
        _, log = broker.stop()
    assert log.count("num.io.threads has no effect") == 1

    code, _, err = finished(
        "broker", "start", "--set", "client.quota.callback.class=x", home=tmp_path
    )
    assert code == 2
    assert "asks for a quota plugin, which this version does not have" in err
    assert "Traceback" not in err


def one_line(code: int, expected: int, err: str) -> str:
    """The last line of the errors, which is all that is said of the failure."""
    lines = [line for line in err.splitlines() if line.startswith("moldau: ")]
    assert code == expected, err
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = finished("broker", "start", "--listen", f"127.0.0.1:{port}", home=tmp_path)

    line = one_line(code, 1, err)
    assert f"cannot listen: the port is in use by process {os.getpid()} (" in line
    assert f"or give another, as --listen {port + 1}" in line
    assert err.splitlines() == [line]  # nothing of the quorum before it
    assert out == ""


def test_a_directory_in_use_is_one_line(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        code, _, err = finished("broker", "start", "--listen", "127.0.0.1:0", home=tmp_path)
        pid = broker.process.pid

    line = one_line(code, 2, err)
    assert f"another process uses the directory: process {pid} (" in line
    assert "or give another with --data" in line
    assert err.splitlines() == [line]


def properties(tmp_path: Path, **more: str) -> Path:
    """A file as Kafka's documentation has it."""
    file = tmp_path / "server.properties"
    values = {
        "process.roles": "broker,controller",
        "node.id": "7",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9099",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9099",
        "log.dirs": "logs-a,logs-b",
        **more,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return file


def test_a_file_wants_its_directories_formatted(tmp_path: Path) -> None:
    file = str(properties(tmp_path))
    code, _, err = finished("broker", "start", "--config", file, home=tmp_path)
    assert "not formatted; `moldau storage format`" in one_line(code, 2, err)

    code, out, _ = finished("storage", "random-uuid", home=tmp_path)
    cluster = out.strip()
    assert finished("storage", "format", "-t", cluster, "-c", file, home=tmp_path)[0] == 0
    for path in ("logs-a", "logs-b"):
        assert f"cluster.id={cluster}" in (tmp_path / path / "meta.properties").read_text()

    other = str(properties(tmp_path, **{"node.id": "8"}))
    code, _, err = finished("broker", "start", "--config", other, home=tmp_path)
    assert "belongs to another node" in one_line(code, 2, err)


def test_a_cluster_id_formats_the_empty_directories_of_a_file(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    controller = f"127.0.0.1:{port}"
    file = properties(
        tmp_path,
        listeners=f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{controller}",
        **{"controller.quorum.bootstrap.servers": controller},
    )
    _, out, _ = finished("storage", "random-uuid", home=tmp_path)
    cluster = out.strip()
    words = ("--config", str(file), "--cluster-id", cluster)
    for _ in range(2):  # the directories are empty, then they belong to the cluster
        with broker_process(tmp_path, *words) as broker:
            assert cluster in broker.text
            assert broker.stop()[0] == 0

    _, out, _ = finished("storage", "random-uuid", home=tmp_path)
    other = ("--config", str(file), "--cluster-id", out.strip())
    code, _, err = finished("broker", "start", *other, home=tmp_path)
    assert f"the directories belong to the cluster {cluster}, not to" in one_line(code, 2, err)


def test_a_directory_with_other_files_is_not_formatted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    code, _, err = finished("broker", "start", "--data", str(tmp_path), home=tmp_path)

    assert "not formatted and holds other files" in one_line(code, 2, err)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_the_environment_gives_settings_too(tmp_path: Path) -> None:
    code, _, err = finished("broker", "start", home=tmp_path, MOLDAU_NUM_PARTITIONS="0")

    assert "MOLDAU_NUM_PARTITIONS" in one_line(code, 2, err)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--shards", "2", "--listen", "0"), "--shards needs listeners with ports"),
        (("--shards", "0"), "--shards"),
        (("--listen", "here"), "give a port, host:port or :port"),
        (("--listen", ":0"), "or ask for it with --insecure"),
        (("--shards", "2", "--listen", ":19092"), "or ask for it with --insecure"),
        (("--set", "log.dir"), "an argument must be key=value"),
        (("--set", "no.such=1"), "unknown setting"),
        (("--config", "missing.properties"), "cannot be read"),
        (("--config", "a.properties", "--listen", "1"), "--listen goes without --config"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = finished("broker", "start", *arguments, home=tmp_path)

    assert said in one_line(code, 2, err)
