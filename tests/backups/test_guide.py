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
    """The first block of the page, which waits for each server, on ports of its own."""
    block = re.search(r"```bash\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    lines = []
    for line in block[1].splitlines():
        lines.append(line)
        if line.endswith("&"):
            port = re.search(r"127\.0\.0\.1:(\d+)", line)
            assert port is not None
            lines.append(_UP.format(port=port[1]))
    text = "\n".join(("set -e", *lines))
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
