"""A part of the pipeline's process tree: a command that is kept running.

A part that ends by itself is told in one line and started again after a pause. Every part is
leashed: however this process ends, its parts end with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from moldau.pipeline.place import PartState, PipelineFailed, Place
from moldau.pipeline.restarts import Restarts
from moldau.runtime import Runtime
from moldau.runtime.node_processes import NodeProcess, pause_s

STOP_S: Final = 60.0
START_S: Final = 60.0
LOOK_S: Final = 0.05

Tell = Callable[[str], None]


class PartProcess:
    """One command."""

    def __init__(
        self, name: str, words: Sequence[str], place: Place, directory: str, runtime: Runtime
    ) -> None:
        """`directory` is that of the pipeline file."""
        self.name = name
        self.state = PartState(name.partition(" ")[0])
        self._words = words
        self._place = place
        self._directory = directory
        self._clock = runtime.clock
        self._process: NodeProcess | None = None
        self._restarts = Restarts()
        self._due_s: float | None = None

    @property
    def log(self) -> str:
        return self._place.path("logs", f"{self._file}.log")

    @property
    def _file(self) -> str:
        return self.name.replace(" ", "-")

    def start(self) -> None:
        """Starts the process, and waits for nothing."""
        self._due_s = None
        self._restarts.on_start(self._clock.monotonic())
        self._process = NodeProcess(
            self._words, self.log, directory=self._directory, is_leashed=True
        )
        self.state.pid = self._process.pid
        self.state.state = "RUNNING"

    def await_line(self, beginning: str) -> str:
        """The rest of the first line of its output that begins so. PipelineFailed if it ends."""
        assert self._process is not None
        until = self._clock.monotonic() + START_S
        while self._clock.monotonic() < until:
            line = self._process.line(0.2)
            if line is None:
                if self._process.exit_code is not None:
                    raise PipelineFailed(self._ended(self._process.exit_code))
                continue
            self._place.keep_output(self._file, line)
            if line.strip().startswith(beginning):
                return line.strip().removeprefix(beginning).strip()
        raise PipelineFailed(f"{self.name} did not start in {START_S:.0f} s; see {self.log}")

    def look(self, tell: Tell) -> bool:
        """Start it again if it has ended and its pause is over. Whether anything has changed."""
        process = self._process
        if process is None:
            if self._due_s is not None and self._clock.monotonic() >= self._due_s:
                self.start()
                self.state.restarts = self._restarts.count
                return True
            return False
        while (line := process.line(0)) is not None:
            self._place.keep_output(self._file, line)
        code = process.exit_code
        if code is None:
            return False
        process.wait(0)
        self._process = None
        self.state.error = self._ended(code)
        self.state.pid = None
        pause = self._restarts.on_end(code, self._clock.monotonic())
        if pause is None:
            self.state.state = "FAILED"
            raise PipelineFailed(self.state.error)
        self.state.state = "RESTARTING"
        self._due_s = self._clock.monotonic() + pause
        tell(f"{self.state.error}; it starts again in {pause:.1f} s")
        return True

    def _ended(self, code: int) -> str:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        why = self._place.last_error(self._file)
        return f"{self.name} has ended ({how})" + (f": {why}" if why else f"; see {self.log}")

    def ask_to_stop(self) -> None:
        """SIGTERM; a pending restart is off."""
        self._due_s = None
        if self._process is not None and self._process.exit_code is None:
            self._process.terminate()

    def await_stop(self, tell: Tell) -> None:
        """Returns when it has ended; killed if that takes too long."""
        process = self._process
        if process is None:
            return
        until = self._clock.monotonic() + STOP_S
        while process.exit_code is None and self._clock.monotonic() < until:
            while (line := process.line(0)) is not None:
                self._place.keep_output(self._file, line)
            pause_s(LOOK_S)
        if process.exit_code is None:
            tell(f"{self.name} did not stop in {STOP_S:.0f} s: killed")
            process.kill()
        process.wait(STOP_S)
        self._process = None
        self.state.pid = None
        self.state.state = "STOPPED"
