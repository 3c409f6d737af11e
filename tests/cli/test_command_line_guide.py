"""docs/command-line.md: its sessions run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.cli.shell import Shell

GUIDE = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_the_sessions_of_the_guide_print_what_it_says(tmp_path: Path) -> None:
    shell = Shell("")
    shell.environment = {"HOME": str(tmp_path)}
    blocks = re.findall(r"```console\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, told = step.partition("\n")
            name, *words = shlex.split(command)
            assert (name, shell.good(*words).out) == ("moldau", told)
