"""Keep a part of a pipeline running: a command in a process of its own.

A part that ends by itself is reported in one line, and started again after a pause. Every part is
leashed: however this process ends, its parts end with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.pipeline.data_directory import (
    FINISHED,
    WAITING,
    DataDirectory,
    PartState,
    PipelineFailed,
)
from moldau.pipeline.restarts import Restarts
from moldau.runtime import Runtime
from moldau.runtime.node_processes import NodeProcess, pause_s

STOP_S: Final = 60.0
START_S: Final = 60.0
POLL_S: Final = 0.05
_NO_PROFILE: Final = {"MOLDAU_PROFILE": ""}
"""A part has its settings from the pipeline, which has read the profile already."""

Report = Callable[[str], None]
"""Shows one line to the user."""


@dataclass(frozen=True, slots=True)
class PartCommand:
    """The command line of a part, and variables of its environment."""

    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    every_s: int | None = None
    """A job may end by itself, and starts again after this pause. Other parts are started again at
    once."""


class PartProcess:
    """One part of the pipeline: a command, its process and its restarts."""

    def __init__(
        self,
        name: str,
        command: PartCommand,
        data: DataDirectory,
        directory: str,
        runtime: Runtime,
    ) -> None:
        """`name` begins with the part's kind. `directory` is that of the pipeline file."""
        self._every_s = command.every_s
        self._variables = {**_NO_PROFILE, **command.variables}
        self.name = name
        self.state = PartState(name.partition(" ")[0])
        self._words = command.words
        self._data = data
        self._directory = directory
        self._clock = runtime.clock
        self._process: NodeProcess | None = None
        self._restarts = Restarts()
        self._restart_at_s: float | None = None
        self._log_position = data.log_size(self._file)

    def new_log_lines(self) -> list[str]:
        """Return the lines of the log since the last call, or since this object was made."""
        lines, self._log_position = self._data.log_lines(self._file, self._log_position)
        return lines

    @property
    def log_path(self) -> str:
        return self._data.path("logs", f"{self._file}.log")

    @property
    def _file(self) -> str:
        return self.name.replace(" ", "-")

    def start(self) -> None:
        """Start the process, and do not wait for it."""
        self._restart_at_s = None
        self._restarts.on_start(self._clock.monotonic())
        self._process = NodeProcess(
            self._words, self.log_path, self._variables, directory=self._directory, is_leashed=True
        )
        self.state.pid = self._process.pid
        self.state.state = "RUNNING"

    def wait_for_line(self, beginning: str) -> str:
        """Wait for a line of the output that begins with this text. Return the rest of the line.

        Raises PipelineFailed if the process ends, or does not write the line in time."""
        assert self._process is not None
        until = self._clock.monotonic() + START_S
        while self._clock.monotonic() < until:
            line = self._process.line(0.2)
            if line is None:
                if self._process.exit_code is not None:
                    raise PipelineFailed(self._exit_message(self._process.exit_code))
                continue
            self._data.append_output(self._file, line)
            if line.strip().startswith(beginning):
                return line.strip().removeprefix(beginning).strip()
        raise PipelineFailed(f"{self.name} did not start in {START_S:.0f} s; see {self.log_path}")

    def check(self, report: Report) -> bool:
        """Save the output of the process, and start it again if it ended and its pause is over.

        Returns whether `state` has changed. Raises PipelineFailed if a restart is of no use."""
        process = self._process
        if process is None:
            if self._restart_at_s is not None and self._clock.monotonic() >= self._restart_at_s:
                self.start()
                self.state.restarts = self._restarts.count
                return True
            return False
        while (line := process.line(0)) is not None:
            self._data.append_output(self._file, line)
        code = process.exit_code
        if code is None:
            return False
        process.wait(0)
        self._process = None
        if code == 0 and self.state.kind == "job":
            self._on_end_of_job(report)
            return True
        self.state.error = self._exit_message(code)
        self.state.pid = None
        pause = self._restarts.on_end(code, self._clock.monotonic())
        if pause is None:
            self.state.state = "FAILED"
            raise PipelineFailed(self.state.error)
        self.state.state = "RESTARTING"
        self._restart_at_s = self._clock.monotonic() + pause
        report(f"{self.state.error}; it starts again in {pause:.1f} s")
        return True

    def _on_end_of_job(self, report: Report) -> None:
        self.state.pid, self.state.error, self.state.state = None, None, FINISHED
        if self._every_s is None:
            report(f"{self.name} has finished")
        else:
            self.state.state = WAITING
            self._restart_at_s = self._clock.monotonic() + self._every_s

    def _exit_message(self, code: int) -> str:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        why = self._data.last_error(self._file)
        return f"{self.name} has ended ({how})" + (f": {why}" if why else f"; see {self.log_path}")

    def request_stop(self) -> None:
        """Send SIGTERM to the process, and cancel a pending restart. Do not wait."""
        self._restart_at_s = None
        if self._process is not None and self._process.exit_code is None:
            self._process.terminate()

    def wait_for_stop(self, report: Report) -> None:
        """Wait until the process has ended. Kill it if that takes too long."""
        process = self._process
        if process is None:
            return
        until = self._clock.monotonic() + STOP_S
        while process.exit_code is None and self._clock.monotonic() < until:
            while (line := process.line(0)) is not None:
                self._data.append_output(self._file, line)
            pause_s(POLL_S)
        if process.exit_code is None:
            report(f"{self.name} did not stop in {STOP_S:.0f} s and is killed")
            process.kill()
        process.wait(STOP_S)
        self._process = None
        self.state.pid = None
        self.state.state = "STOPPED"
