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

from moldau.ids import format_uuid, new_uuid
from moldau.runtime.node_processes import NodeProcess, free_ports_in_row
from moldau.runtime.real import RealRuntime
from moldau.testing.cluster_directory import settings_text
from moldau.testing.cluster_security import BROKERS, CLIENTS, ClusterSecurity

SHARDS: Final = 2
_HOST: Final = "127.0.0.1"
_WAIT_S: Final = 60.0
_LOOK_S: Final = 0.1
_RESTING: Final = threading.Event()
"""Never set: a rest between two looks."""


class ShardedHost:
    """The shards of one host. A shard that is killed is started again by their supervisor."""

    broker_ids: Final = range(1, 1 + SHARDS)

    def __init__(self, home: str, settings: Mapping[str, str], *, is_secure: bool = False) -> None:
        self._home = Path(home)
        self._settings = settings
        # clients, brokers if it is secure, and the controller
        self._port = free_ports_in_row(2 * SHARDS + 1)
        self._process: NodeProcess
        self.security: ClusterSecurity | None = None
        if is_secure:
            self._runtime = RealRuntime("shards")
            self.security = ClusterSecurity(self._runtime, f"{home}/secured")
            self.security.prepare(self.broker_ids, self.bootstrap_servers, None)
            self._cluster_id = format_uuid(new_uuid(self._runtime.random))

    def __enter__(self) -> Self:
        self.launch_all()
        if self.security is not None:
            inner = f"{_HOST}:{self._port + SHARDS}"
            if self.security.add_admin(self.broker_ids[0], inner):
                for each in range(SHARDS):
                    self.security.await_login(f"{_HOST}:{self._port + each}")
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
        words = ["broker", "start", "--shards", str(SHARDS)]
        words += self._described() if self.security is None else self._secured(self.security)
        self._process = NodeProcess(words, str(self._home / "log"), is_leashed=True)
        line = self._process.line(_WAIT_S)
        assert (line or "").endswith(" is up"), (self._home / "log").read_text()[-900:]

    def _described(self) -> list[str]:
        """The options of a host that clients reach plainly."""
        words = ["--data", str(self._home / "data"), "--listen", f"{_HOST}:{self._port}"]
        for name, value in self._settings.items():
            words += ["--set", f"{name}={value}"]
        return words

    def _secured(self, security: ClusterSecurity) -> list[str]:
        """Those of one with TLS, logins and rules, which a file describes."""
        controller = f"{_HOST}:{self._port + 2 * SHARDS}"
        first = self.broker_ids[0]
        settings = {
            "node.id": str(first),
            "process.roles": "broker,controller",
            "listeners": f"{CLIENTS}://{_HOST}:{self._port},"
            f"{BROKERS}://{_HOST}:{self._port + SHARDS},CONTROLLER://{controller}",
            "controller.quorum.voters": f"{first}@{controller}",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **security.settings_of(first, self.broker_ids),
            **self._settings,
        }
        file = self._home / "server.properties"
        file.write_text(settings_text(str(self._home / "data"), settings))
        return ["--config", str(file), "--cluster-id", self._cluster_id]

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
