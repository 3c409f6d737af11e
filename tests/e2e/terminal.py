"""A user's terminal, and the blocks of docs/security*.md that are typed into it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.client.guides import text_of

GUIDE = "security.md"
UNTIL_S = 60


def section(title: str, guide: str = GUIDE) -> str:
    """The text of a section, with the sections below it only if it is of the second level."""
    text = text_of(guide)
    level = title.partition(" ")[0]
    found = re.search(rf"^{title}$\n(.*?)(?=^#{{2,{len(level)}}} |\Z)", text, re.M | re.S)
    assert found, title
    return found[1]


def blocks(title: str, kind: str, guide: str = GUIDE) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", section(title, guide), re.DOTALL)


class Terminal:
    """A user's terminals in one folder: `do` waits for commands, `start` leaves a program running
    until the block ends."""

    def __init__(self, folder: Path, adapted: Callable[[str], str]) -> None:
        """`adapted` puts the ports and paths of this machine into a text of the guide."""
        self.folder = folder
        self.adapted = adapted
        places = (str(Path(sys.executable).parent), os.environ["PATH"])
        clean = {name: text for name, text in os.environ.items() if not name.startswith("MOLDAU_")}
        self.environment = {**clean, "PATH": os.pathsep.join(places), "HOME": str(folder)}

    def do(self, commands: str) -> str:
        done = subprocess.run(  # noqa: S603 - commands of the guide
            ["/bin/bash", "-euc", self.adapted(commands)],
            cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def start(self, command: str) -> Iterator[Path]:
        """Yield the path of what the program writes."""
        path = self.folder / f"{command.split()[1]}.out"
        with path.open("w") as out:
            process = subprocess.Popen(  # noqa: S603 - commands of the guide
                ["/bin/bash", "-c", f"exec {command}"],
                cwd=self.folder, env=self.environment, stdout=out, stderr=out,
            )  # fmt: skip
        try:
            yield path
        finally:
            process.terminate()
            try:
                process.wait(UNTIL_S)
            finally:
                process.kill()
                process.wait()
