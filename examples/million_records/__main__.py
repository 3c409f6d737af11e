"""`python -m examples.million_records [--count N]`: the commands a user would type, one by one.

Everything happens in a temporary directory and on a separate port, and is removed afterwards, also
after an interrupt: Ctrl-C, SIGTERM and a closed terminal end it with one line and the exit code
that a shell would give.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MOLDAU = str(Path(sys.executable).with_name("moldau"))
TOPIC = "demo"
STOP_TIMEOUT_S = 30.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.million_records", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, metavar="N")
    count = parser.parse_args(arguments).count
    demo = Demo()
    with (
        demo.heeding_signals(),
        tempfile.TemporaryDirectory(prefix="moldau-demo-") as folder,
        demo.broker(folder) as bootstrap,
    ):
        code = demo.perform(count, bootstrap)
    if demo.ended_by is not None:
        name = demo.ended_by.name
        print(f"\nended by {name}: the broker was stopped, its data removed", file=sys.stderr)
        return 128 + demo.ended_by
    if code == 0:
        print("\nThe broker was stopped and its data removed. Yours: moldau broker start")
    return code


class Demo:
    """The processes of the demo.

    A signal raises nothing, as that could happen between the start of a process and the line that
    remembers it. It ends the running processes, and the code that waits for one checks why it
    ended.
    """

    def __init__(self) -> None:
        self.ended_by: signal.Signals | None = None
        self._running: dict[subprocess.Popen[bytes], signal.Signals] = {}

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Handle the signals in the block. Ignored ones (by nohup, or with &) stay ignored."""
        before = {each: signal.getsignal(each) for each in ENDING}
        minded = {each: old for each, old in before.items() if old is not signal.SIG_IGN}
        for each in minded:
            signal.signal(each, self._hear)
        try:
            yield
        finally:
            for each, old in minded.items():
                signal.signal(each, old)

    def _hear(self, number: int, _: object) -> None:
        if self.ended_by is None:
            self.ended_by = signal.Signals(number)
            self._end_all()

    def _end_all(self) -> None:
        for process, ending in list(self._running.items()):
            process.send_signal(ending)

    @contextmanager
    def _process(
        self, command: Sequence[str], ending: signal.Signals, **options: Any
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a process in the block. At its end it has ended, by itself or by that signal."""
        process = subprocess.Popen(command, **options)  # noqa: S603 - our own commands
        self._running[process] = ending
        try:
            if self.ended_by is not None:  # the signal came while the process was starting
                process.send_signal(ending)
            yield process
        finally:
            if self.ended_by is None:
                process.send_signal(ending)
            try:
                process.communicate(timeout=STOP_TIMEOUT_S)
            finally:
                process.kill()
                del self._running[process]

    @contextmanager
    def broker(self, folder: str) -> Iterator[str]:
        """Run a broker as a separate process and yield its address, empty if it did not start."""
        command = (MOLDAU, "broker", "start", "--data", folder, "--listen", "127.0.0.1:0")
        print("$ moldau broker start --data ... --listen 127.0.0.1:0", flush=True)
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        # In its own process group, Ctrl-C reaches only this program, which stops it.
        with self._process(
            command, signal.SIGTERM, stdin=subprocess.DEVNULL, process_group=0, **options
        ) as process:
            assert process.stdout is not None
            bootstrap = ""
            for line in process.stdout:
                text = line.decode(errors="replace").rstrip()
                print(f"  {text}", flush=True)
                if text.lstrip().startswith("bootstrap"):
                    bootstrap = text.split()[-1]
                    break
            yield bootstrap

    def perform(self, count: int, bootstrap: str) -> int:
        """Run the commands until one fails. Return the exit code; 1 if `bootstrap` is empty."""
        if not bootstrap:
            return 1
        for words in (
            ("topic", "create", TOPIC, "--partitions", "6"),
            ("produce", TOPIC, "--count", str(count), "--size", "100"),
            ("consume", TOPIC, "--count", str(count), "--quiet"),
            ("topic", "describe", TOPIC),
        ):
            code = self._show(words, bootstrap)
            if code or self.ended_by is not None:
                return code
        return 0

    def _show(self, words: Sequence[str], bootstrap: str) -> int:
        """Print a command, run it with its output visible, and return its exit code."""
        print(f"\n$ moldau {' '.join(words)}", flush=True)
        command = (MOLDAU, *words, "--bootstrap", bootstrap)
        with self._process(command, signal.SIGKILL) as process:
            return process.wait()


if __name__ == "__main__":
    sys.exit(main())
