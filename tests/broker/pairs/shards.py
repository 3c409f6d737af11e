"""A host with two shards: `moldau broker start --shards 2`, with what cases ask of a cluster."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from moldau.runtime.node_processes import NodeProcess, free_ports_in_row

SHARDS: Final = 2
_HOST: Final = "127.0.0.1"
_WAIT_S: Final = 60.0
_LOOK_S: Final = 0.1
_RESTING: Final = threading.Event()
"""Never set: a rest between two looks."""


class ShardedHost:
    """The shards of one host. A shard that is killed is started again by their supervisor."""

    security: None = None
    broker_ids: Final = range(1, 1 + SHARDS)

    def __init__(self, home: str, settings: Mapping[str, str]) -> None:
        self._home = Path(home)
        self._settings = settings
        self._port = free_ports_in_row(SHARDS + 1)  # the last is the controller's
        self._process: NodeProcess

    def __enter__(self) -> Self:
        self.launch_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(self.broker_ids[0])

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{_HOST}:{self._port + each}" for each in range(SHARDS))

    def launch_all(self) -> None:
        """Start the host; its shards accept clients when this returns."""
        words = ["broker", "start", "--data", str(self._home / "data"), "--shards", str(SHARDS)]
        words += ["--listen", f"{_HOST}:{self._port}"]
        for name, value in self._settings.items():
            words += ["--set", f"{name}={value}"]
        self._process = NodeProcess(words, str(self._home / "log"), is_leashed=True)
        for _ in range(SHARDS):
            line = self._process.line(_WAIT_S)
            assert " is up" in (line or ""), (self._home / "log").read_text()[-900:]

    def kill_all(self) -> None:
        """Kill the supervisor and its shards."""
        shards = [self._pid_of(each) for each in self.broker_ids]
        self._process.kill()
        self._process.wait(_WAIT_S)
        for each in shards:
            with suppress(ProcessLookupError):  # it ends with its supervisor
                os.kill(each, signal.SIGKILL)
        self._await(is_up=False, ids=self.broker_ids)

    def kill(self, broker_id: int) -> None:
        """Kill the process of a shard."""
        os.kill(self._pid_of(broker_id), signal.SIGKILL)

    def stop(self, broker_id: int) -> None:
        """Stop the host: no shard is stopped alone."""
        self._process.terminate()
        assert self._process.wait(_WAIT_S) is not None, "the shards do not stop"

    def start(self, broker_id: int) -> None:
        """Start the host, if it was stopped, and wait until the shard accepts clients."""
        if self._process.exit_code is not None:
            self.launch_all()
        self._await(is_up=True, ids=[broker_id])

    def pause(self, broker_id: int) -> None:
        """Pause the process of a shard."""
        os.kill(self._pid_of(broker_id), signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """Continue the paused process of a shard."""
        os.kill(self._pid_of(broker_id), signal.SIGCONT)

    def _pid_of(self, broker_id: int) -> int:
        wanted = b"--shard\0%d\0" % (broker_id - self.broker_ids[0])
        for each in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parent = int(each.read_text().rpartition(")")[2].split()[1])
                words = (each.parent / "cmdline").read_bytes() + b"\0"
                if parent == self._process.pid and wanted in words:
                    return int(each.parent.name)
        raise AssertionError(f"no process of broker {broker_id}")

    def _await(self, *, is_up: bool, ids: range | list[int]) -> None:
        until = time.monotonic() + _WAIT_S
        for each in ids:
            while self._accepts(self._port + each - self.broker_ids[0]) is not is_up:
                assert time.monotonic() < until, f"broker {each}: is it up? {not is_up}"
                _RESTING.wait(_LOOK_S)

    @staticmethod
    def _accepts(port: int) -> bool:
        try:
            socket.create_connection((_HOST, port), 1).close()
        except OSError:
            return False
        return True
