"""Keep a part of a pipeline running: a command in a process of its own.

A part that ends by itself is reported in one line, and started again after a pause. Every part is
leashed: however this process ends, its parts end with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.logging.events import EVENTS
from moldau.pipeline.data_directory import (
    FINISHED,
    WAITING,
    DataDirectory,
    PartState,
    PipelineFailed,
    last_error_in,
)
from moldau.pipeline.jobs import job_error_in
from moldau.runtime import Runtime
from moldau.runtime.node_processes import NodeProcess, pause_s
from moldau.runtime.restarts import USAGE_ERROR
from moldau.runtime.supervised import Supervised

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
        self._supervised = Supervised(self._launch, runtime.clock)
        self._next_run_ms: int | None = None
        self._event_positions: dict[str, int] = {}
        if self.state.kind == "app":
            self._variables[EVENTS] = data.make_events(self._file)
        self._log_begin = data.log_size(self._file)
        """Where the log of the present process begins."""

    def new_events(self) -> list[dict[str, Any]]:
        """Return what the processes of an app have reported since the last call, or since this
        object was made."""
        return self._data.new_events(self._file, self._event_positions)

    @property
    def log_path(self) -> str:
        return self._data.path("logs", f"{self._file}.log")

    @property
    def _file(self) -> str:
        return self.name.replace(" ", "-")

    def start(self) -> None:
        """Start the process, and do not wait for it."""
        self._supervised.start()

    def _launch(self) -> NodeProcess:
        self._next_run_ms = None
        self._log_begin = self._data.log_size(self._file)
        process = NodeProcess(
            self._words, self.log_path, self._variables, directory=self._directory, is_leashed=True
        )
        self.state.pid = process.pid
        self.state.state = "RUNNING"
        return process

    def wait_for_line(self, beginning: str) -> str:
        """Wait for a line of the output that begins with this text. Return the rest of the line.

        Raises PipelineFailed if the process ends, or does not write the line in time."""
        process = self._supervised.process
        assert process is not None
        until = self._clock.monotonic() + START_S
        while self._clock.monotonic() < until:
            line = process.line(0.2)
            if line is None:
                if process.exit_code is not None:
                    raise PipelineFailed(self._exit_message(process.exit_code))
                continue
            self._data.append_output(self._file, line)
            if line.strip().startswith(beginning):
                return line.strip().removeprefix(beginning).strip()
        raise PipelineFailed(f"{self.name} did not start in {START_S:.0f} s; see {self.log_path}")

    def check(self, report: Report) -> bool:
        """Save the output of the process, and start it again if it ended and its pause is over.

        Returns whether `state` has changed. Raises PipelineFailed if a restart is of no use."""
        supervised = self._supervised
        process = supervised.process
        if process is None:
            if self._next_run_ms is not None and supervised.now_ms() >= self._next_run_ms:
                self.start()
            elif not supervised.take_restart():
                return False
            self.state.restarts = supervised.restarts.total
            return True
        self._save_output(process)
        end = supervised.take_end(is_failure=self._is_failure)
        if end is None:
            return False
        if end.code == 0 and self.state.kind == "job":
            self._on_end_of_job(report)
            return True
        self.state.error = self._exit_message(end.code)
        self.state.pid = None
        if end.pause_ms is None:
            self.state.state = "FAILED"
            raise PipelineFailed(self.state.error)
        self.state.state = "RESTARTING"
        report(f"{self.state.error}; it starts again in {end.pause_ms / 1000:.1f} s")
        return True

    def _is_failure(self, code: int) -> bool:
        return code != USAGE_ERROR and not (code == 0 and self.state.kind == "job")

    def _save_output(self, process: NodeProcess) -> None:
        while (line := process.line(0)) is not None:
            self._data.append_output(self._file, line)

    def _on_end_of_job(self, report: Report) -> None:
        self.state.pid, self.state.error, self.state.state = None, None, FINISHED
        if self._every_s is None:
            report(f"{self.name} has finished")
        else:
            self.state.state = WAITING
            self._next_run_ms = self._supervised.now_ms() + 1000 * self._every_s

    def _exit_message(self, code: int) -> str:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        last_error = job_error_in if self.state.kind == "job" else last_error_in
        why = last_error(self._data.log_tail(self._file, self._log_begin))
        return f"{self.name} has ended ({how})" + (f": {why}" if why else f"; see {self.log_path}")

    def request_stop(self) -> None:
        """Send SIGTERM to the process, and cancel a pending restart. Do not wait."""
        self._next_run_ms = None
        self._supervised.restarts.forget()
        process = self._supervised.process
        if process is not None and process.exit_code is None:
            process.terminate()

    def wait_for_stop(self, report: Report) -> None:
        """Wait until the process has ended. Kill it if that takes too long."""
        process = self._supervised.process
        if process is None:
            return
        until = self._clock.monotonic() + STOP_S
        while process.exit_code is None and self._clock.monotonic() < until:
            self._save_output(process)
            pause_s(POLL_S)
        if process.exit_code is None:
            report(f"{self.name} did not stop in {STOP_S:.0f} s and is killed")
            process.kill()
        process.wait(STOP_S)
        self._supervised.process = None
        self.state.pid = None
        self.state.state = "STOPPED"
