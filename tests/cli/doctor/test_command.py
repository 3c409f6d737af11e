"""`moldau doctor` asks this machine and a real broker, and fails if there is a problem."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.doctor import installed
from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.cli.doctor.examined import doctor, run_doctor
from tests.cli.shell import Terminal

CPU_S_MAX = 2.0
"""Of two processes side by side: a second and a half on two cores, with room for a slow machine."""
ROUNDS = 3
QUICK = {"crc32c": installed.COMPILED["crc32c"]}


@pytest.fixture
def few_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """All compiled libraries take most of a second to import."""
    monkeypatch.setattr(installed, "COMPILED", QUICK)


@pytest.mark.usefixtures("few_imports")
def test_this_machine_is_described_and_layers_add_findings(tmp_path: Path) -> None:
    code, found = doctor("--data", str(tmp_path / "data"))
    checks = {each["check"]: each for each in found}

    assert {"python", "libraries", "open files", "data directory", "fsync", "ports"} <= {*checks}
    assert code == (1 if any(each["verdict"] == "problem" for each in found) else 0)
    assert not [*tmp_path.iterdir()]
    code, found = doctor("--data", str(tmp_path), TROUBLE="yes")
    assert code == 1
    assert [each["cure"] for each in found if each["check"] == "mine"] == ["cure"]


@pytest.mark.usefixtures("few_imports")
def test_a_table_ends_with_what_to_do() -> None:
    answer = run_doctor("--data", "/proc/no/such", out=Terminal())

    assert answer.code == 1
    assert "problem: data directory: /proc/no/such cannot be written" in answer.out
    assert "  cure: sudo install -d" in answer.out
    assert "problem" in answer.out.splitlines()[-1]


@pytest.mark.usefixtures("few_imports")
def test_the_addresses_of_a_broker_are_tried(tmp_path: Path) -> None:
    with SyncEmbeddedBroker() as broker:
        _, found = doctor("--data", str(tmp_path), "-b", broker.bootstrap_servers)
    checks = {each["check"]: each for each in found}

    (seen,) = [each for name, each in checks.items() if name.startswith("broker ")]
    assert seen["verdict"] == "ok"
    assert "reached in" in seen["found"]
    assert "ms from this machine's" in checks["cluster clock"]["found"]


@pytest.mark.usefixtures("few_imports")
def test_an_advertised_address_that_does_not_exist_is_named(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = {"advertised.listeners": "PLAINTEXT://no-such-host.invalid:9092"}
    with SyncEmbeddedBroker(settings, port=port):
        code, found = doctor("--data", str(tmp_path), "-b", f"localhost:{port}")

    assert code == 1
    (seen,) = [each for each in found if each["check"].startswith("broker ")]
    assert "no-such-host.invalid:9092" in seen["found"]


@pytest.mark.usefixtures("few_imports")
def test_a_cluster_that_is_away_is_a_problem(tmp_path: Path) -> None:
    code, found = doctor("--data", str(tmp_path), "-b", "localhost:1")

    assert code == 1
    assert found[-1]["check"] == "cluster"


@pytest.mark.real
@pytest.mark.deep
def test_a_broken_library_is_named_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "lz4").mkdir()  # before the installed one, which stays as it is
    (tmp_path / "lz4" / "__init__.py").write_text("raise ImportError('no GLIBC_9')")
    words = [sys.executable, "-m", "moldau", "doctor", "--json", "-b", "localhost:1"]
    done = subprocess.run(  # noqa: S603
        [*words, "--data", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, b"")
    found = {each["check"]: each for each in json.loads(done.stdout)}
    assert "lz4" in found["libraries"]["found"]
    assert "no GLIBC_9" in found["libraries"]["found"]
    assert found["cluster"]["verdict"] == "problem"
    assert "record kernel" not in found


@pytest.mark.real
@pytest.mark.deep
def test_it_is_quick(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "moldau", "doctor", "--json", "--data", str(tmp_path)]
    taken = []
    for _ in range(ROUNDS):
        before = children_cpu_s()
        done = subprocess.run(words, stdout=subprocess.PIPE, check=False)  # noqa: S603
        taken.append(children_cpu_s() - before)
        assert len(json.loads(done.stdout)) > 10
    assert min(taken) < CPU_S_MAX


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
