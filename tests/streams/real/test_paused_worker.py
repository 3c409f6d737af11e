"""Workers and brokers that are stopped by SIGSTOP for a while, and two workers of one name."""

from __future__ import annotations

import shutil
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from moldau.runtime.node_processes import free_ports
from tests.chaos.proxy import Proxies
from tests.conformance.broker import MoldauBroker
from tests.peers.eventually import eventually
from tests.streams.real.running import App

pytestmark = pytest.mark.real

SESSION_S = 6


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_worker_that_was_paused_over_its_session_joins_again(
    tmp_path: Path, guarantee: str
) -> None:
    with MoldauBroker(tmp_path / "broker") as moldau:
        _pauses(moldau, tmp_path, guarantee)


def has_two(wanted: int, found: dict[str, int]) -> bool:
    return found.get("two", 0) >= wanted


def _pauses(moldau: MoldauBroker, tmp_path: Path, guarantee: str) -> None:
    name = f"paused-{tmp_path.name}"
    settings = (
        "commit.interval.ms=100",
        f"processing.guarantee={guarantee}",
        f"consumer.session.timeout.ms={SESSION_S * 1000}",
        "consumer.heartbeat.interval.ms=500",
    )
    app = App(moldau.bootstrap_servers, name, tmp_path, settings=settings).make()
    process = app.start()
    app.write("one two")
    app.read(lambda found: len(found) == 2)
    for at in range(3):
        app.write("one " * 50)
        process.send_signal(signal.SIGSTOP)
        moldau.kill()
        time.sleep(SESSION_S + 1)
        if at % 2:
            process.send_signal(signal.SIGCONT)
            time.sleep(1)
            moldau.start()
        else:
            moldau.start()
            process.send_signal(signal.SIGCONT)
        app.write("two")
        wanted = 2 + at
        app.read(partial(has_two, wanted))
    assert process.poll() is None
    assert "FENCED_INSTANCE_ID" not in app.log.read_text()
    app.stop(process)


@pytest.mark.parametrize(
    ("protocol", "guarantee"),
    [("classic", "exactly_once_v2"), ("streams", "exactly_once_v2"), ("streams", "at_least_once")],
)
def test_a_worker_with_a_copied_state_directory_names_it(
    tmp_path: Path, protocol: str, guarantee: str
) -> None:
    """One of the two has the name in the group: in a classic one the later one. The other one ends,
    and says which directory."""
    fast = (
        "group.streams.min.heartbeat.interval.ms=100",
        "group.streams.heartbeat.interval.ms=500",
        "group.streams.initial.rebalance.delay.ms=0",
    )
    given = [word for each in fast for word in ("--set", each)]
    with MoldauBroker(tmp_path / "broker", *given) as moldau:
        name = f"copied-{tmp_path.name[-8:]}"
        app = App(moldau.bootstrap_servers, name, tmp_path).make()
        app.settings += (f"group.protocol={protocol}", f"processing.guarantee={guarantee}")
        first = app.start()
        app.write("one two")
        app.read(lambda found: len(found) == 2)
        copy = App(moldau.bootstrap_servers, name, tmp_path)
        copy.settings = app.settings
        copy.state = tmp_path / "copy"
        copy.log = tmp_path / "copy.log"
        shutil.copytree(app.state, copy.state)
        second = copy.start()

        eventually(lambda: {first.poll(), second.poll()} == {None, 1}, within_s=60)
        is_first = first.poll() is not None
        assert is_first or protocol == "streams"
        gone, left = (app, copy) if is_first else (copy, app)
        last = gone.log.read_text().splitlines()[-1]
        assert "is a copy of the other" in last
        assert f"path='{gone.state}/{name}/0'" in last
        app.write("one")
        app.read(lambda found: found.get("one") == 2)
        left.stop(second if is_first else first)


@pytest.mark.deep
@pytest.mark.parametrize("is_new", [True, False], ids=["join", "restore"])
def test_a_broker_that_pauses_for_over_a_minute_ends_no_worker(
    tmp_path: Path, is_new: bool
) -> None:
    """`task.timeout.ms` is five minutes, the clients' own timeouts are one."""
    with MoldauBroker(tmp_path / "broker") as moldau:
        name = f"slow-{tmp_path.name}"
        app = App(moldau.bootstrap_servers, name, tmp_path).make()
        if not is_new:
            process = app.start()
            app.write("one two")
            app.read(lambda found: len(found) == 2)
            app.stop(process)
            shutil.rmtree(app.state / name / "0" / "tasks")
            app.log.write_text("")
        process = app.start()
        last = "streams: reading" if is_new else ": restoring "
        eventually(lambda: last in app.log.read_text(), within_s=60)
        moldau.pause()
        time.sleep(70)
        moldau.resume()

        app.write("one")
        app.read(lambda found: found.get("one") == (1 if is_new else 2))
        app.stop(process)


@pytest.mark.deep
def test_a_cluster_that_is_gone_as_a_client_connects_ends_no_worker(tmp_path: Path) -> None:
    """The first connection of the worker has reached the cluster. From then on each one that it
    makes, of whichever of its clients, finds no cluster for longer than `start.timeout.ms`."""
    (port,) = free_ports(1)
    with Proxies() as proxies:
        way = proxies.add(port)
        broker = MoldauBroker(
            tmp_path / "broker", "--set", f"advertised.listeners=PLAINTEXT://127.0.0.1:{way}"
        )
        broker.port = port
        with broker:
            name = f"gone-{tmp_path.name}"
            quick = ("start.timeout.ms=1000", "socket.connection.setup.timeout.ms=1000")
            app = App(f"127.0.0.1:{way}", name, tmp_path, settings=quick).make()
            process = app.start()
            app.write("one two")
            app.read(lambda found: len(found) == 2)
            app.stop(process)
            for number in range(2, 7):
                shutil.rmtree(app.state / name / "0" / "tasks")
                app.log.write_text("")
                proxies.ways[port].cut_at = proxies.ways[port].accepted + number
                process = app.start()
                eventually(lambda: not proxies.ways[port].open.is_set(), within_s=60)
                time.sleep(3)
                proxies.mend(port)
                app.write("one")
                app.read(partial(has_one, number))
                app.stop(process)


def has_one(wanted: int, found: dict[str, int]) -> bool:
    return found.get("one", 0) >= wanted
