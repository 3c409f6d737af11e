"""`moldau pipeline run` as a process of its own, on a copy of the example."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline"
PATIENCE_S = 180.0
_MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from moldau.cli import main; exit(main())"
)


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Returns as soon as it holds; fails with `what` when it takes too long."""
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, f"not within {timeout_s} s: {what}"
        time.sleep(0.1)


class Folder:
    """A pipeline `words` in a directory of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.input = path / "input.txt"
        self.words: set[str] = set()

    @classmethod
    def of_example(cls, path: Path) -> Self:
        """The example, without any input."""
        found = cls(path / "words")
        shutil.copytree(EXAMPLE, found.path, ignore=shutil.ignore_patterns(".moldau", "counts*"))
        found.input.write_text("")
        return found

    def write(self, *words: str) -> None:
        """A line each."""
        self.words |= set(words)
        with self.input.open("a") as file:
            file.writelines(f"{word}\n" for word in words)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            (self.path / ".moldau" / "words" / "state.json").read_text()
        )
        return found

    def pid_of(self, part: str) -> int | None:
        found = self.state()["parts"].get(part, {}).get("pid")
        return None if found is None else int(found)

    def counts(self) -> dict[str, int]:
        """What the database sink has written."""
        path = self.path / "counts.db"
        if not path.exists():
            return {}
        database = sqlite3.connect(path, timeout=10)
        try:
            return dict(database.execute("SELECT word, count FROM counts"))
        except sqlite3.OperationalError:
            return {}  # no table yet
        finally:
            database.close()

    def lines(self) -> list[dict[str, Any]]:
        """What the file sink has written."""
        path = self.path / "counts.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def await_all(self) -> None:
        """Every word has come out at both ends."""

        def is_out() -> bool:
            both = self.counts().keys() & {each["word"] for each in self.lines()}
            return self.words <= both

        wait_until(is_out, f"{len(self.words)} words at both ends")

    def moldau(self, *words: str, code: int = 0, source: str = "") -> str:
        """What a command says; it has to end with that code."""
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-c", _MAIN, *words],
            cwd=self.path,
            input=source,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, *words: str) -> Iterator[Run]:
        """`moldau pipeline run`, from when it says that the pipeline runs."""
        with subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", _MAIN, "pipeline", "run", *words],
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # To a broker, every MOLDAU_* variable is a setting.
            env={key: text for key, text in os.environ.items() if not key.endswith("_CYCLES")},
            start_new_session=True,
        ) as process:
            run = Run(process)
            try:
                run.read_until("runs; Ctrl-C")
                yield run
            finally:
                process.kill()


class Run:
    """A pipeline that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []

    def read_until(self, text: str) -> None:
        """Reads what it says, up to a line with this in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if text in line:
                return
        pytest.fail("it ended:\n" + "\n".join(self.said))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> Sequence[str]:
        """What it says while it stops."""
        begin = len(self.said)
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.said += [line.rstrip("\n") for line in self.process.stdout]
        assert self.process.wait(timeout=PATIENCE_S) == 0, "\n".join(self.said)
        return self.said[begin:]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()
