"""docs/command-line.md: its sessions run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

GUIDE = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_the_sessions_of_the_guide_print_what_it_says(tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert blocks
    with SyncEmbeddedBroker() as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.environment["HOME"] = str(tmp_path)
        for block in blocks:
            for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, told = step.partition("\n")
                piped, _, words = command.rpartition(" | ")
                source = f"{shlex.split(piped)[1]}\n" if piped else ""
                name, *arguments = shlex.split(words)
                assert (name, shell.good(*arguments, source=source).out) == ("moldau", told)
