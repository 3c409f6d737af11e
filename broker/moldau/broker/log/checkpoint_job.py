"""Writing a directory's checkpoints without blocking the event loop.

1. `Checkpoints.begin` collects the contents.          loop
2. `write`: new files under other names, synced.       thread
3. `Checkpoints.put`: they replace the old ones.       loop
4. `sync`: the names are durable.                      thread
5. `Checkpoints.end`: the new contents count.          loop

Invariant: older contents never replace newer ones. An operation that must not wait (before a
truncation for instance) writes the same files at once, on the loop. Step 3 is on the loop as well;
it then finds that the job was overtaken, and drops its files.

While new files cannot be written, the current ones stay. They are older, but not wrong. Too many
open files or a full disk may pass in a moment, so the write is tried again `RETRIES` times. After
that the error takes the directory out of service, as any other error does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moldau.broker.log import names
from moldau.broker.log.checkpoint import offsets_text
from moldau.broker.log.open_files import advice, may_pass
from moldau.broker.log.rounds import Turns, rest

if TYPE_CHECKING:
    from moldau.broker.log.directory import LogDirectory
    from moldau.broker.log.names import TopicPartition
    from moldau.logging import Logger
    from moldau.runtime import Runtime
    from moldau.runtime.files import Files

POINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.LOCAL_STARTS)
RETRIES: Final = 20
RETRY_SECONDS: Final = 1.0
_SUFFIX: Final = ".new"


class CheckpointJob:
    """New contents for some of a directory's checkpoints."""

    __slots__ = ("_contents", "_directory", "_files", "generations")

    def __init__(
        self,
        files: Files,
        directory: str,
        contents: Mapping[str, Mapping[TopicPartition, int]],
        generations: Mapping[str, int],
    ) -> None:
        """`contents` are keyed by file name."""
        self._files = files
        self._directory = directory
        self._contents = contents
        self.generations = generations

    def offsets(self, name: str) -> Mapping[TopicPartition, int]:
        """Return the offsets for a file, or an empty mapping if the file is not in the job."""
        return self._contents.get(name, {})

    def write(self) -> None:
        """Do step 2: write the new files."""
        for name, offsets in self._contents.items():
            with self._files.open(self._path(name) + _SUFFIX, "write") as file:
                file.truncate(0)
                file.append(offsets_text(offsets).encode())
                file.sync()

    def rename(self) -> None:
        """Do step 3, called by the directory: rename the new files."""
        for name in self._contents:
            self._files.rename(self._path(name) + _SUFFIX, self._path(name))

    def sync(self) -> None:
        """Do step 4: sync the names."""
        self._files.sync_dir(self._directory)

    def drop(self) -> None:
        """Remove the new files, instead of step 3."""
        for name in self._contents:
            with suppress(FileNotFoundError):
                self._files.remove(self._path(name) + _SUFFIX)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


class CheckpointWriter:
    """Runs the steps of the jobs. Each directory has only one running job at a time."""

    def __init__(self, runtime: Runtime, log: Logger) -> None:
        self._runtime = runtime
        self._log = log
        self._turns = Turns()

    async def write(self, directory: LogDirectory, *checkpoints: str) -> None:
        """Write the current contents of these checkpoints, or newer contents. A disk error takes
        the directory out of service; check `failure` before you rely on the checkpoints."""
        async with self._turns.of(directory.path):
            failures = 0
            while directory.failure is None:
                try:
                    if await self._write(directory, checkpoints):
                        return
                except OSError as error:
                    if failures == RETRIES or not may_pass(error):
                        directory.state.fail(error)
                        return
                    if not failures:
                        self._report(directory, error)
                    failures += 1
                    await rest(RETRY_SECONDS)

    async def forget_departed(self, directory: LogDirectory) -> None:
        """Do `Checkpoints.forget_departed`, but write in a thread. A disk error takes the directory
        out of service."""
        checkpoints = directory.checkpoints
        while checkpoints.are_stale and directory.failure is None:
            departures = checkpoints.departures
            await self.write(directory, *checkpoints.in_use())
            if directory.failure is None:
                checkpoints.on_rewritten(departures)

    async def _write(self, directory: LogDirectory, checkpoints: tuple[str, ...]) -> bool:
        """Run one job. Return False if it was overtaken."""
        run_blocking = self._runtime.run_blocking
        job = directory.checkpoints.begin(checkpoints)
        await run_blocking(job.write)
        if not directory.checkpoints.put(job):
            return False
        await run_blocking(job.sync)
        directory.checkpoints.end(job)
        return True

    def _report(self, directory: LogDirectory, error: OSError) -> None:
        self._log.error(
            f"checkpoints cannot be written and are tried again: {advice(error)}",
            directory=directory.path,
            error=str(error),
            seconds_max=round(RETRIES * RETRY_SECONDS),
        )
