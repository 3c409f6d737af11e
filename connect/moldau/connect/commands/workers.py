"""`moldau connect start --workers N`: a supervisor of N workers of one group on this machine.

Each worker is a process of its own, with the supervisor's settings and the next port of the REST
API. One that ends by itself starts again after a pause. The workers are leashed: they end when the
supervisor ends, for whatever reason. The command ends if a worker refuses its settings, or fails
several times soon after its start: the next start would fail for the same reason.
"""

from __future__ import annotations

import asyncio
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit

if TYPE_CHECKING:
    from moldau.logging import Logger
    from moldau.runtime import Runtime
    from moldau.runtime.node_processes import NodeProcess
    from moldau.runtime.supervised import Supervised

WORKERS_MAX: Final = 1_000
_AUTO: Final = "auto"
_STOP_S: Final = 60.0
_LOOK_S: Final = 0.1
_FAILURES_MAX: Final = 5
_PASSED: Final = ("bootstrap", "config", "otlp", "traces", "trace_ratio", "log_level")


def workers(text: str) -> int:
    """Return a number of workers, or for `auto` most cores. Raise ArgumentTypeError."""
    if text == _AUTO:
        from moldau.runtime.children import most_cores

        return most_cores()
    from moldau.cli.numbers import whole

    try:
        return whole(1, WORKERS_MAX)(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, and not {_AUTO}") from None


class ConnectWorkers:
    """Runs workers until it is cancelled, or one of them cannot run."""

    def __init__(
        self, words: Callable[[int], Sequence[str]], count: int, runtime: Runtime, log: Logger
    ) -> None:
        """`words(index)` is the command of worker number `index`, without `moldau`."""
        from moldau.runtime.restarts import RestartPolicy
        from moldau.runtime.supervised import Supervised

        policy = RestartPolicy(failures_max=_FAILURES_MAX)
        self._workers = [
            Supervised(partial(_launch, words, index), runtime.clock, policy)
            for index in range(count)
        ]
        self._runtime = runtime
        self._log = log
        self.code = Exit.DONE

    async def run(self) -> None:
        """Run until cancelled, or until a worker cannot be restarted; then stop all workers."""
        from moldau.runtime.supervised import stop_supervised

        try:
            for each in self._workers:
                each.start()
            while self.code == Exit.DONE:
                await asyncio.sleep(_LOOK_S)
                for index, each in enumerate(self._workers):
                    self._keep(index, each)
        finally:
            killed = await self._runtime.run_blocking(stop_supervised, self._workers, _STOP_S)
            if killed:
                self._log.error("workers did not stop in time", killed=killed)

    def _keep(self, index: int, worker: Supervised) -> None:
        from moldau.runtime.restarts import USAGE_ERROR

        worker.take_restart()
        end = worker.take_end(is_failure=lambda code: code != USAGE_ERROR)
        if end is None:
            return
        if end.pause_ms is None:
            self.code = Exit.MISUSED if end.code == USAGE_ERROR else Exit.FAILED
            self._log.error("a worker cannot run", worker=index, end=end.how)
        else:
            self._log.error(
                "a worker has ended and starts again", worker=index, end=end.how, in_ms=end.pause_ms
            )


def _launch(words: Callable[[int], Sequence[str]], index: int) -> NodeProcess:
    from moldau.runtime.node_processes import NodeProcess

    return NodeProcess(words(index), None, is_leashed=True, shares_output=True)


def command_of(
    arguments: Namespace, context: Context, listen: tuple[str, int], index: int
) -> list[str]:
    """Return the command line of one worker: that of the supervisor, with an address of its own. A
    port that the system chooses is another one for each worker by itself."""
    host, port = listen
    where = f"[{host}]" if ":" in host else host
    words = ["connect", "start", "--listen", f"{where}:{port + index if port else 0}"]
    if context.profile_name is not None:
        words += ["--profile", context.profile_name]
    for name in _PASSED:
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for each in arguments.set:
        words += ["--set", each]
    return [*words, *(f"--{name.replace('_', '-')}" for name in ("log_json", "debug")
                      if getattr(arguments, name, False))]  # fmt: skip
