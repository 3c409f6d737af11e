"""The first steps in README.md run as they stand there."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from moldau.testing import SyncEmbeddedBroker
from tests.cli.fresh import moldau

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """The language and text of each block under "Try it"."""
    section = README.read_text(encoding="utf-8").partition("\n## Try it\n")[2].partition("\n## ")[0]
    return _BLOCK.findall(section)


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with its output."""
    return [
        (step.partition("\n")[0], step.partition("\n")[2])
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]


def test_the_first_steps_run_as_they_are_written() -> None:
    texts = blocks()
    assert texts[0][1].splitlines() == [
        "make venv",
        "source .venv/bin/activate",
        "moldau broker start",
    ]
    (session,) = (text for _, text in texts if text.startswith("$ "))
    (code,) = (text for language, text in texts if language == "python")
    with SyncEmbeddedBroker() as broker:
        for command, output in steps(session):
            piped, _, words = command.rpartition(" | ")
            source = f"{shlex.split(piped)[1]}\n" if piped else ""
            name, *arguments = shlex.split(words)
            assert name == "moldau"
            done = moldau(*arguments, bootstrap=broker.bootstrap_servers, source=source)
            assert (done.code, done.out) == (0, output), done
        code = code.replace("localhost:9092", broker.bootstrap_servers)
        code = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n{code}"
        with subprocess.Popen(  # noqa: S603 - the example
            [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = {process.stdout.readline() for _ in range(2)}
            process.send_signal(signal.SIGINT)
        assert lines == {"b'three of them'\n", "b'three more'\n"}
