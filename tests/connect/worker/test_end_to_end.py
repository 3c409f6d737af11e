"""A worker with a third party's connectors: over a topic into a sink, killed on the way."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from moldau.client.sync import Admin
from tests.connect.processes import wait_until
from tests.connect.worker.scene import Scene, content, every, is_alive, lines, numbers
from tests.connect.worker.scene import environment as environment
from tests.connect.worker.scene import scene as scene
from tests.connect.worker.task_failure import failure

pytestmark = pytest.mark.real

SESSION_S = 45
"""For how long a group keeps a member that it hears nothing of."""


SHOUT = """
def shout(record, mark):
    return record.replace(value=record.value + mark)
"""


def test_a_worker_calls_the_python_functions_that_its_settings_allow(
    scene: Scene, tmp_path: Path
) -> None:
    (tmp_path / "packages" / "shouting.py").write_text(SHOUT)
    out = tmp_path / "out"
    transform = {
        "transforms": "shout",
        "transforms.shout.type": "Python",
        "transforms.shout.function": "shouting:shout",
        "transforms.shout.arg.mark": "!",
    }
    shouted = {**lines(scene.name, out), **transform}
    with scene.worker() as worker:
        status, body = worker.ask("PUT", f"/connectors/{scene.sink}/config", shouted)
        assert status == 400
        assert "add it to transforms.python.modules in the worker config" in body["message"]
    with scene.worker(transforms_python_modules="shouting") as worker:
        worker.create("numbers", numbers(scene.name, 3))
        worker.create(scene.sink, shouted)

        wait_until(lambda: len(content(out)) >= 3, "all lines are there")
        assert content(out) == ["0:0!", "0:1!", "0:2!"]
        assert worker.stop() == 0


def test_records_go_from_a_source_over_a_topic_into_a_sink(scene: Scene, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with scene.worker() as worker:
        worker.create("numbers", numbers(scene.name, 100))
        worker.create(scene.sink, lines(scene.name, out))

        wait_until(lambda: len(content(out)) >= 100, "all lines are there")
        worker.wait_for("numbers", "RUNNING", "RUNNING")

        assert content(out) == [f"0:{number}" for number in range(100)]
        assert worker.stop() == 0


def test_what_a_killed_worker_left_is_taken_up_by_the_next(scene: Scene, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with scene.worker() as worker:
        worker.create("numbers", numbers(scene.name, 400, pause_ms="5"))
        worker.create(scene.sink, lines(scene.name, out))
        wait_until(lambda: len(content(out)) >= 50, "it runs")
        pids = worker.task_pids()
        worker.kill()
        wait_until(lambda: not any(map(is_alive, pids)), "its tasks ended with it")
    with scene.worker() as worker:
        wait_until(lambda: set(content(out)) >= every(400), "nothing is lost")
        worker.wait_for(scene.sink, "RUNNING", "RUNNING")


def test_a_killed_task_is_told_and_begins_again_by_itself(scene: Scene, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with scene.worker(errors_restart_backoff_ms="5000") as worker:  # the failure shows for so long
        worker.create("numbers", numbers(scene.name, 200, pause_ms="5"))
        worker.create(scene.sink, lines(scene.name, out))
        wait_until(lambda: len(content(out)) >= 50, "it runs")
        for pid in worker.task_pids():
            os.kill(pid, signal.SIGKILL)

        line = failure(worker, "numbers")
        assert line.startswith("the task's process was ended by signal 9 -> ")
        wait_until(lambda: set(content(out)) >= every(200), "nothing is lost")
        worker.wait_for("numbers", "RUNNING", "RUNNING")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_killed_sink_task_has_its_partitions_back_before_its_session_ends(
    scene: Scene, tmp_path: Path, protocol: str
) -> None:
    out = tmp_path / "out"
    with scene.worker() as worker:
        more = {"consumer.override.group.protocol": protocol}
        worker.create(scene.sink, {**lines(scene.name, out), **more})
        worker.create("numbers", numbers(scene.name, 10))
        wait_until(lambda: len(content(out)) >= 10, "it runs")
        worker.ask("DELETE", "/connectors/numbers")
        wait_until(lambda: len(worker.task_pids()) == 1, "the sink alone runs")
        os.kill(worker.task_pids()[0], signal.SIGKILL)
        worker.create("more", numbers(scene.name, 20))

        wait_until(lambda: set(content(out)) >= every(20), "it reads on", SESSION_S / 2)


def test_a_task_that_has_to_be_killed_leaves_its_group(scene: Scene, tmp_path: Path) -> None:
    out, hang = tmp_path / "out", tmp_path / "hang"
    with scene.worker(task_shutdown_graceful_timeout_ms="500") as worker:
        worker.create(scene.sink, lines(scene.name, out, hang_file=str(hang)))
        worker.create("numbers", numbers(scene.name, 4000, pause_ms="5"))
        wait_until(lambda: len(content(out)) >= 10, "it runs")
        hang.touch()
        worker.ask("DELETE", f"/connectors/{scene.sink}")
        with Admin({"bootstrap.servers": scene.broker.bootstrap_servers}) as admin:
            wait_until(
                lambda: not admin.describe_group(f"connect-{scene.sink}").members,
                "it left",
                SESSION_S / 2,
            )
        assert hang.exists()


def test_a_failed_task_says_why_in_one_line_and_heals(scene: Scene, tmp_path: Path) -> None:
    crash = tmp_path / "crash"
    crash.touch()
    with scene.worker() as worker:
        worker.create(
            "numbers",
            numbers(scene.name, 5, crash_file=str(crash), secret="hunter22"),  # noqa: S106
        )
        assert failure(worker, "numbers").endswith(" -> remove it")
        _, config = worker.ask("GET", "/connectors/numbers/config")
        assert config["secret"] == "[hidden]"  # noqa: S105
        assert "hunter22" not in str(worker.ask("GET", "/connectors/numbers/tasks"))

        crash.unlink()
        worker.wait_for("numbers", "RUNNING", "RUNNING")


def test_a_sink_that_is_busy_gets_the_same_records_again(scene: Scene, tmp_path: Path) -> None:
    out, busy = tmp_path / "out", tmp_path / "busy"
    busy.touch()
    with scene.worker() as worker:
        worker.create("numbers", numbers(scene.name, 20))
        worker.create(scene.sink, lines(scene.name, out, busy_file=str(busy)))
        worker.wait_for(scene.sink, "RUNNING", "RUNNING")
        assert content(out) == []
        busy.unlink()
        wait_until(lambda: len(content(out)) >= 20, "they came")

        assert Counter(content(out)) == Counter(every(20))
