"""Facts about this machine are what its own tools say."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from moldau.runtime.file_systems import directory_facts, temporary_directory
from moldau.runtime.machine import (
    Pending,
    clock_facts,
    import_failures,
    machine_facts,
    name_facts,
    port_facts,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells it in /proc")


@linux
def test_limits_and_memory_are_those_of_this_process() -> None:
    facts = machine_facts()

    assert facts.open_files is not None
    soft = subprocess.run(  # noqa: S602
        "ulimit -Sn",  # noqa: S607
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert soft in (str(facts.open_files.soft), "unlimited")
    assert facts.memory is not None
    assert 0 < facts.memory.available_bytes <= facts.memory.total_bytes
    assert facts.mappings_max == int(Path("/proc/sys/vm/max_map_count").read_text())
    assert facts.cpus == os.cpu_count()


def test_the_clock_does_not_jump_and_is_later_than_the_installation() -> None:
    facts = clock_facts()

    assert facts.now_s > facts.installed_s
    assert abs(facts.jump_s) < 60


def test_names_are_looked_up() -> None:
    assert "127.0.0.1" in name_facts("localhost").addresses
    unknown = name_facts("no-such-host.invalid")
    assert unknown.addresses == ()
    assert unknown.error


def test_a_port_in_use_is_told_from_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port_facts(port).is_taken
    assert not port_facts(port).is_taken


def test_a_directory_that_does_not_exist_is_judged_by_its_parent(tmp_path: Path) -> None:
    facts = directory_facts(str(tmp_path / "a" / "b"), syncs=3)

    assert facts.existing == str(tmp_path)
    assert facts.error is None
    assert 1 <= len(facts.sync_seconds) <= 3
    assert 0 < facts.free_bytes <= facts.total_bytes
    assert not [*tmp_path.iterdir()]


@linux
def test_the_file_system_is_named(tmp_path: Path) -> None:
    assert directory_facts("/proc/1", syncs=1).kind == "proc"
    assert directory_facts("/proc/1", syncs=1).error
    assert directory_facts(str(tmp_path), syncs=1).kind
    assert directory_facts(temporary_directory(), syncs=1).error is None


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert directory_facts(str(tmp_path / "file")).error == "it is a file, not a directory"


@pytest.mark.real
def test_imports_that_fail_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raises_here.py").write_text("raise ImportError('no GLIBC_9')")
    (tmp_path / "ends_here.py").write_text("import os; os._exit(11)")
    (tmp_path / "hangs_here.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert import_failures([], 1) == {}
    assert import_failures(["json", "raises_here", "email"], 60) == {
        "raises_here": "ImportError: no GLIBC_9"
    }
    assert "code 11" in import_failures(["json", "ends_here"], 60)["ends_here"]
    assert "has not ended" in import_failures(["hangs_here"], 1.0)["hangs_here"]


def test_an_answer_that_is_late_is_not_waited_for() -> None:
    asked = Event()

    assert Pending(lambda: 7).result(60) == 7
    late = Pending(asked.wait)
    assert late.result(0) is None
    asked.set()
    assert late.result(60) is True
    with pytest.raises(FileNotFoundError):
        Pending(lambda: os.stat("/no/such/file")).result(60)
