"""`moldau cluster up --secure`: three nodes that let in users alone, and do what rules allow."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.client import load_settings
from moldau.link.login.jaas import parse_jaas
from moldau.runtime.node_processes import MAIN, free_ports_in_row
from moldau.testing import Cluster
from tests.cli.cluster_logs import ends_of_logs
from tests.cli.shell import Shell

pytestmark = pytest.mark.real

NODES = 3


def test_a_secure_cluster_needs_no_preparation(tmp_path: Path) -> None:
    data, port = tmp_path / "cluster", free_ports_in_row(3 * NODES)
    words = ["cluster", "up", "--secure", "--port", str(port), "--data", str(data)]
    with subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(NODES + 3)]
            assert lines[-1] == "Ctrl-C stops all.\n", f"{lines}{ends_of_logs(data)}"
            secured = data / "secured"
            _used(Shell(f"localhost:{port}"), secured, tmp_path)
            os.kill(process.pid, signal.SIGTERM)
            said = "".join(lines) + process.stdout.read()
            assert process.wait(60) == 0
        finally:
            process.kill()
    _nothing_is_told(secured, data, said)
    with pytest.raises(Exception, match="this cluster is secure"), Cluster(3, directory=str(data)):
        pass


def _used(shell: Shell, secured: Path, folder: Path) -> None:
    """The admin adds a user, who may do what a rule allows; others are not let in."""
    login = ("--command-config", str(secured / "admin.properties"))
    shell.good("topic", "create", "orders", "--partitions", "2", *login)
    alice = folder / "alice.properties"
    shell.good("user", "add", "alice", "--out", str(alice), *login)
    assert stat.S_IMODE(alice.stat().st_mode) == 0o600
    its = ("--command-config", str(alice))
    assert "AUTHORIZATION_FAILED" in shell("produce", "orders", *its, source="x\n").err
    shell.good("acl", "add", "alice", "--producer", "orders", *login)
    shell.good("produce", "orders", *its, source="first\n")
    assert shell.good("consume", "orders", *login).out == "first\n"
    assert shell("topic", "list", "--set", "default.api.timeout.ms=1000").code != 0
    again = shell("user", "add", "bob", "--out", str(alice), *login)
    assert "File exists" in again.err


def _nothing_is_told(secured: Path, data: Path, said: str) -> None:
    """No password is printed, or is in the log or the settings of a node."""
    for path in secured.rglob("*"):
        private = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == private, path
    login = load_settings(secured / "admin.properties")["sasl.jaas.config"]
    password = parse_jaas(login).options["password"]
    assert f"sasl.password={password}\n" in (secured / "kcat.conf").read_text(encoding="utf-8")
    assert len(password) == 32
    for path in (*data.glob("*.log"), *data.glob("*.properties")):
        assert password not in path.read_text(encoding="utf-8"), path
    assert password not in said
