"""Runs the project of a folder for `moldau dev`, and starts it again when a file changes.

The project runs in a process of its own, so that a new start has the new text of every module. A
change whose text cannot be read (a syntax error, a mistake in pyproject.toml) is told of in one
line; what ran before goes on until the next change. A project that ends waits for a change, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from moldau.cli.shell import pause
from moldau.dev.project import DevProject, project_of
from moldau.errors import ConfigError
from moldau.runtime import Runtime
from moldau.runtime.node_processes import NodeProcess
from moldau.runtime.watching import Stamps, stamps

SUFFIXES: Final = (".py", ".toml", ".yaml", ".yml", ".json", ".properties", ".sql", ".avsc",
                   ".proto")  # fmt: skip
_HERE: Final = {"MOLDAU_PROFILE": "", "MOLDAU_BOOTSTRAP": "", "MOLDAU_COMMAND_CONFIG": ""}
"""The project runs on the broker of dev, whatever the user's environment names."""
_LOOK_S: Final = 0.3
_POLL_S: Final = 0.05
_STOP_S: Final = 60.0

Report = Callable[[str], None]


class DevApp:
    """The process of a folder's project. `run` keeps it running until it is cancelled."""

    def __init__(
        self,
        folder: str,
        runtime: Runtime,
        words: Callable[[DevProject], list[str]],
        prepare: Callable[[DevProject], Awaitable[None]],
        report: Report,
    ) -> None:
        """`words` is the command of a project; `prepare` is awaited before it starts."""
        self._folder = folder
        self._runtime = runtime
        self._words = words
        self._prepare = prepare
        self._report = report
        self._process: NodeProcess | None = None
        self._unreadable: set[str] = set()

    async def run(self, project: DevProject) -> None:
        """Run the project, also the changed ones, until cancelled; then stop its process."""
        seen = await self._stamps()
        brings_worker = project.brings_worker
        try:
            await self._start(project)
            while True:
                await pause(_LOOK_S)
                self._show_output()
                now = await self._settled(seen)
                changed = sorted(
                    name for name in now.keys() | seen.keys() if now.get(name) != seen.get(name)
                )
                if not changed:
                    continue
                seen = now
                found = self._changed_project(changed)
                if found is None:
                    continue
                if found.brings_worker != brings_worker:
                    self._report("what the folder runs is of another kind now: start dev again")
                    continue
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                self._report(f"{changed[0]}{more} changed: starting again")
                await self._stop()
                await self._start(found)
        finally:
            await self._stop()

    async def _settled(self, seen: Stamps) -> Stamps:
        """Return the stamps. Wait until they stay the same: an editor may write several files."""
        now = await self._stamps()
        while now != seen:
            await pause(_POLL_S)
            before, now = now, await self._stamps()
            if before == now:
                break
        return now

    async def _stamps(self) -> Stamps:
        """Return the stamps. The scan is done in a thread: the broker is on this loop."""
        return await self._runtime.run_blocking(stamps, self._folder, SUFFIXES)

    def _changed_project(self, changed: Iterable[str]) -> DevProject | None:
        """Return the project as it is now; None, and one line told, if it cannot be read."""
        if not self._are_readable({*changed, *self._unreadable}):
            return None
        try:
            return project_of(self._folder, self._runtime.files)
        except ConfigError as error:
            self._report(f"{error}; waiting for the next change")
            return None

    def _are_readable(self, names: Collection[str]) -> bool:
        """Whether each module among the files can be compiled. Report the first mistake."""
        mistakes = {name: self._mistake(name) for name in sorted(names) if name.endswith(".py")}
        self._unreadable = {name for name, mistake in mistakes.items() if mistake is not None}
        for mistake in filter(None, mistakes.values()):
            self._report(f"{mistake}; waiting for the next change")
            return False
        return True

    def _mistake(self, name: str) -> str | None:
        """Return what is wrong with the text of a module, in one line; None if nothing is."""
        try:
            data = self._runtime.files.read_whole(f"{self._folder}/{name}")
            compile(data, name, "exec", dont_inherit=True)
        except FileNotFoundError:
            return None
        except SyntaxError as error:
            return f"{name}, line {error.lineno}: {error.msg}"
        except ValueError as error:
            return f"{name}: {error}"
        return None

    async def _start(self, project: DevProject) -> None:
        if project.title is None:
            return
        await self._prepare(project)
        self._process = NodeProcess(
            self._words(project), None, _HERE, directory=self._folder, is_leashed=True
        )

    def _show_output(self) -> None:
        """Tell the lines of the process. If it has ended, say so."""
        process = self._process
        if process is None:
            return
        while (line := process.line(0)) is not None:
            if line.strip() != "Ctrl-C stops it.":
                self._report(f"  {line}")
        code = process.exit_code
        if code is not None:
            process.wait(0)
            self._process = None
            self._report(f"the project has ended (exit code {code}); waiting for the next change")

    async def _stop(self) -> None:
        """Stop the process in order. Kill it if that takes too long."""
        process = self._process
        if process is None:
            return
        process.terminate()
        until = self._runtime.clock.monotonic() + _STOP_S
        while process.exit_code is None and self._runtime.clock.monotonic() < until:
            while process.line(0) is not None:
                pass
            await pause(_POLL_S)
        if process.exit_code is None:
            self._report(f"the project did not stop in {_STOP_S:.0f} s and is killed")
            process.kill()
        process.wait(_STOP_S)
        self._process = None
