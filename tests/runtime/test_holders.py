"""The process that has a port or a lock is named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.runtime.holders import is_port_taken, lock_holder, port_holder
from moldau.runtime.real_files import RealFiles

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it, in /proc")


@linux
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
def test_a_listening_process_is_named(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_port_taken(host, port)
        holder = port_holder(port)
        assert holder is not None
        assert holder.pid == os.getpid()
        assert str(holder).startswith(f"process {os.getpid()} (")
    assert not is_port_taken(host, port)
    assert port_holder(port) is None


@linux
@pytest.mark.parametrize(("words", "is_parent"), [(["--shard", "0"], True), (["--shards"], False)])
def test_the_parent_is_named_for_a_shard_that_it_starts_again(
    words: list[str], is_parent: bool
) -> None:
    listens = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        " print(s.getsockname()[1], flush=True); input()"
    )
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", listens, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        holder = port_holder(int(process.stdout.readline()))
        assert holder is not None
        assert holder.pid == (os.getpid() if is_parent else process.pid)
        process.communicate(b"\n")


def test_any_port_and_unknown_hosts_are_free() -> None:
    assert not is_port_taken("localhost", 0)
    assert not is_port_taken("no-such-host.invalid", 9092)


@linux
def test_a_process_with_a_lock_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = RealFiles().lock(path)
    holder = lock_holder(path)
    assert holder is not None
    assert holder.pid == os.getpid()
    lock.release()
    assert lock_holder(path) is None
    assert lock_holder(str(tmp_path / "none")) is None
