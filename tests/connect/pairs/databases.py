"""The databases of cases, on servers that may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tests.databases.servers import mariadb_address, postgresql_address
from tests.databases.target import TestDatabase
from tests.peers.eventually import eventually

_ADDRESSES: Final = {"postgresql": postgresql_address, "mariadb": mariadb_address}
_START_S: Final = 60.0


class Databases:
    """Makes new databases. A server starts when a database is first wanted there."""

    def __init__(self, folder: Path, on_end: ExitStack) -> None:
        self._folder = folder
        self._on_end = on_end
        self._servers: dict[str, sa.URL] = {}

    def new(self, kind: str) -> TestDatabase:
        """Return an empty database."""
        name = f"db_{uuid.uuid4().hex[:12]}"
        if kind == "sqlite":
            return TestDatabase(kind, f"jdbc:sqlite:{self._folder}/{name}.db")
        if kind not in self._servers:
            address = self._on_end.enter_context(_ADDRESSES[kind]())
            self._servers[kind] = sa.make_url(address)
        with self._admin(kind) as connection:
            letters = " CHARACTER SET utf8mb4" if kind == "mariadb" else ""
            connection.exec_driver_sql(f"CREATE DATABASE {name}{letters}")
        url = self._servers[kind].set(database=name).render_as_string(hide_password=False)
        return TestDatabase(kind, url)

    def kill(self, kind: str) -> None:
        """Kill a server, and start it again on what it has on its disk."""
        if kind == "postgresql":
            self._kill_postgresql()
        else:
            self._kill_mariadb()
        eventually(lambda: self._answers(kind), within_s=_START_S)

    def _kill_postgresql(self) -> None:
        with self._admin("postgresql") as connection:
            data = Path(connection.exec_driver_sql("SHOW data_directory").scalar_one())
        server = int((data / "postmaster.pid").read_text().split()[0])
        control = Path(os.readlink(f"/proc/{server}/exe")).with_name("pg_ctl")
        owner = data.stat()
        with tempfile.TemporaryFile() as log:
            subprocess.run(  # noqa: S603 - the server's own program
                [control, "-D", data, "-m", "immediate", "-w", "restart"],
                check=True, user=owner.st_uid, group=owner.st_gid, cwd=data,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_START_S,
            )  # fmt: skip

    def _kill_mariadb(self) -> None:
        with self._admin("mariadb") as connection:
            file = Path(connection.exec_driver_sql("SELECT @@pid_file").scalar_one())
        server = int(file.read_text())
        words = Path(f"/proc/{server}/cmdline").read_bytes().decode().split("\0")[:-1]
        os.kill(server, signal.SIGKILL)
        eventually(lambda: _has_ended(server), within_s=_START_S)
        process = subprocess.Popen(  # noqa: S603 - the same server
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._on_end.callback(process.wait)
        self._on_end.callback(process.kill)

    def _answers(self, kind: str) -> bool:
        try:
            with self._admin(kind):
                return True
        except sa.exc.DBAPIError:
            return False

    def _admin(self, kind: str) -> sa.Connection:
        engine = sa.create_engine(
            self._servers[kind], poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        return engine.connect()


def _has_ended(pid: int) -> bool:
    """Whether a process has ended, though its parent may not have looked yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"
