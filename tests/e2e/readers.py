"""A reader of a page: the page's files in a folder of their own, what it says to install in an
environment of its own, and a broker whose topics have two partitions."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moldau.client.sync import Consumer
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import commands_of, files_of
from tests.peers.eventually import eventually
from tests.wheels import install, own_wheels, run_uv

PATIENCE_S: Final = 180.0
TWO_PARTITIONS: Final = {"num.partitions": "2"}
_HIDDEN: Final = frozenset({"PYTHONPATH", "VIRTUAL_ENV"})
"""Nothing of the surrounding environment may help."""


class Reader:
    """Somebody who follows a page."""

    def __init__(self, page: str, folder: Path, broker: SyncEmbeddedBroker) -> None:
        self.page = page
        self.broker = broker
        self.home = folder / "environment"
        self.folder = folder / "project"
        self.folder.mkdir()
        self.environment = {each: os.environ[each] for each in os.environ.keys() - _HIDDEN}
        self.environment |= {
            "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder),
            "BOOTSTRAP": broker.bootstrap_servers,
        }

    def install(self, wheels: Path, naming: str, **pins: str) -> None:
        """Install moldau, and what the page's line names that has this word. What is pinned here
        comes with what it needs of its own; all else is of the versions of this repository."""
        installs = [each for each in commands_of(self.page) if each.startswith("pip install ")]
        (line,) = [each for each in installs if naming in each.split()]
        words = [f"{each}=={pins[each]}" if each in pins else each for each in line.split()[2:]]
        if not pins:
            install(self.home, *own_wheels(wheels), *words)
            return
        run_uv("venv", "-q", self.home)
        run_uv("pip", "install", "-q", "-p", self.home / "bin" / "python",
               *own_wheels(wheels), *words)  # fmt: skip

    def write(self, *names: str) -> None:
        """Write these files of the page."""
        files = files_of(self.page)
        for name in names:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name], encoding="utf-8")

    def do(self, command: str, code: int = 0) -> str:
        """Run a command of the shell, and return what it writes."""
        done = subprocess.run(  # noqa: S603 - a command of the page
            ["/bin/bash", "-euc", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def do_line(self, beginning: str) -> str:
        """Run the command of the page that begins so."""
        return self.do(self.line(beginning))

    def line(self, beginning: str) -> str:
        """The command of the page that begins so."""
        (found,) = [each for each in commands_of(self.page) if each.startswith(beginning)]
        return found

    @contextmanager
    def started(self, command: str, name: str) -> Iterator[Path]:
        """A program that runs until the block ends, and then ends by SIGTERM without an error.
        Yield the file with what it writes."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - a command of the page
                ["/bin/bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            yield log
            assert process.poll() is None, log.read_text(errors="replace")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (0, -signal.SIGTERM), log.read_text(errors="replace")
            assert "Traceback" not in log.read_text(errors="replace"), log.read_text()
        except BaseException as error:
            error.add_note(log.read_text(errors="replace")[-6000:])
            raise
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def values(self, topic: str, count: int) -> list[bytes]:
        """The values of a topic, when it has as many."""
        found: list[bytes] = []
        with Consumer(
            bootstrap_servers=self.broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(consumer.partitions(topic))

            def is_there() -> bool:
                found.extend(value for part in consumer.poll(0.2) for value in part.values())
                return len(found) >= count

            eventually(is_there, within_s=PATIENCE_S)
        return found


@contextmanager
def reader_of(page: str, folder: Path) -> Iterator[Reader]:
    """A reader with a broker that keeps its data when it is stopped."""
    with SyncEmbeddedBroker(TWO_PARTITIONS, directory=str(folder / "kafka")) as broker:
        yield Reader(page, folder, broker)
