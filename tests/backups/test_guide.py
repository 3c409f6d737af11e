"""docs/backup.md: its commands, from an empty directory, in fresh processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.tiered.s3_servers import ServerMissing, versitygw_program

GUIDE = Path(__file__).parents[2] / "docs" / "backup.md"
_UP = "until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do :; done"


def script() -> str:
    """The walk of the page, which waits for each server, on ports of its own."""
    text = GUIDE.read_text(encoding="utf-8").partition("\n## In five commands\n")[2]
    credentials, *walk = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)[:3]
    (shown,) = re.findall(r"```console\n\$ (.*?)\n", text)
    commands = "".join(walk).splitlines()
    assert len(commands) == 5
    lines = []
    for line in commands:
        lines.append(line)
        if line.endswith("&"):
            lines += [_UP.format(port=port) for port in re.findall(r"127\.0\.0\.1:(\d+)", line)]
    text = "\n".join(("set -e", credentials, *lines, shown))
    for shown in sorted(set(re.findall(r"127\.0\.0\.1[:/](\d+)", text))):
        text = text.replace(shown, str(_free_port()))
    return text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.real
@pytest.mark.slow
def test_the_walk_of_the_page(tmp_path: Path) -> None:
    try:
        folders = [str(Path(versitygw_program()).parent), str(Path(sys.executable).parent)]
    except ServerMissing as error:
        pytest.skip(str(error))
    environment = {**os.environ, "PATH": ":".join((*folders, os.environ["PATH"]))}
    with subprocess.Popen(  # noqa: S603 - the page's own commands
        ["/bin/bash", "-c", script()],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        assert shell.stdout is not None
        told = []
        try:
            for line in shell.stdout:
                told.append(line)
                if re.match(r"orders\s+0\s", line):
                    break
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    text = "".join(told)
    assert re.search(r"backed up 1 topics? ", text), text
    assert re.search(r"restored 1 topics? from backups/", text), text
    assert re.search(r"^orders\s+0\s.*\b1000\b", text, re.MULTILINE), text
