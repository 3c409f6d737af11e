"""S3 servers on this machine: moto (the group `peers`) and versitygw (built through Go's proxy).

Both run as processes of their own, on a free port, for the tests of one worker. moto keeps objects
in memory and accepts every key; versitygw keeps them in a folder and checks keys, regions, rights
and clocks as Amazon does.
"""

from __future__ import annotations

import http.client
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

import pytest

T = TypeVar("T")

KEY: Final = "moldau-key"
SECRET: Final = "moldau-secret"  # noqa: S105 - of servers that end with the test
REGION: Final = "us-east-1"
BUCKET: Final = "segments"
_VERSITYGW: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_BUILD_S: Final = 900
_RUNNING: Final = re.compile(r"Running on http://127\.0\.0\.1:(\d+)")


class ServerMissing(Exception):
    """A server that this machine does not have. The text says how to get it."""


class S3Server(NamedTuple):
    """A running server with the bucket `BUCKET`."""

    port: int
    process_id: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def use_key(patch: pytest.MonkeyPatch, key: str = KEY, secret: str = SECRET) -> None:
    """Put credentials into the environment, where every SDK finds them, and no others."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        patch.delenv(name)
    patch.setenv("AWS_ACCESS_KEY_ID", key)
    patch.setenv("AWS_SECRET_ACCESS_KEY", secret)


@contextmanager
def running(start: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """Run a server, or skip the tests that need it."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except ServerMissing as missing:
            pytest.skip(str(missing))
        yield server


@contextmanager
def moto() -> Iterator[S3Server]:
    """Run moto. Raise ServerMissing without it."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask_cors") is None:
        raise ServerMissing("moto is not installed: make peers")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stderr is not None
            port = next(
                int(found[1]) for line in process.stderr if (found := _RUNNING.search(line))
            )
            _drain(process)
            server = S3Server(port)
            _make_bucket(server)
            yield server
        finally:
            process.kill()


@contextmanager
def versitygw() -> Iterator[S3Server]:
    """Run versitygw. Raise ServerMissing if there is none, and it cannot be built."""
    program = versitygw_program()
    with tempfile.TemporaryDirectory(prefix="moldau-s3-") as folder:
        port = free_port()
        users = Path(folder) / "users"
        users.mkdir()
        objects = Path(folder) / "objects"
        (objects / BUCKET).mkdir(parents=True)
        options = ["--region", REGION, "--iam-dir", str(users)]
        command = [program, "--port", f"127.0.0.1:{port}", *options, "posix", str(objects)]
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        with subprocess.Popen(  # noqa: S603
            command,
            env={**os.environ, **keys},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                await_port(process, port)
                yield S3Server(port, process.pid)
            finally:
                process.kill()


def make_user(server: S3Server) -> tuple[str, str]:
    """Return the key and secret of a new user of versitygw that may do nothing with the bucket."""
    name = uuid4().hex
    admin = [versitygw_program(), "admin", "--access", KEY, "--secret", SECRET]
    address = ["--endpoint-url", server.url, "--region", REGION]
    user = ["create-user", "--access", name, "--secret", SECRET, "--role", "user"]
    subprocess.run([*admin, *address, *user], check=True, capture_output=True)  # noqa: S603
    return name, SECRET


def versitygw_program() -> str:
    """Return the path of versitygw, which is built if it is missing. Raise ServerMissing."""
    return go_program(_VERSITYGW)


def go_program(module: str) -> str:
    """Return the path of a program in Go, which is built if it is missing. Raise ServerMissing."""
    name = module.partition("@")[0].rpartition("/")[2]
    go = shutil.which("go")

    def build(made: Path) -> list[str]:
        if go is None:
            raise ServerMissing(f"{name} is not installed, and there is no go to build it")
        return ["env", f"GOBIN={made}", "GOFLAGS=-mod=mod", go, "install", module]

    return shutil.which(name) or str(made_once(f"{name}-{module.partition('@')[2]}", build) / name)


def made_once(name: str, build: Callable[[Path], list[str]]) -> Path:
    """Return a folder of the cache, which the command that `build` returns fills once. Raise
    ServerMissing if it cannot."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "moldau" / "conformance" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        made = Path(scratch) / "made"
        done = subprocess.run(  # noqa: S603
            build(made), capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
        if done.returncode:
            raise ServerMissing(f"{name} cannot be made: {done.stderr.splitlines()[-1:]}")
        if not folder.is_dir():
            made.rename(folder)
    return folder


def _drain(process: subprocess.Popen[str]) -> None:
    """Let the server write its log to nowhere."""
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()


def _make_bucket(server: S3Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("PUT", f"/{BUCKET}")
    assert connection.getresponse().status == 200
    connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Return when the server accepts connections; fail if its process has ended."""
    while True:
        assert process.poll() is None, "the server has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        _give_time(process)


def _give_time(process: subprocess.Popen[bytes]) -> None:
    """Give the process a moment."""
    try:
        process.wait(0.02)
    except subprocess.TimeoutExpired:
        return
