"""`moldau connect start --workers N`: a supervisor of N workers of one group on this machine.

Each worker is a process of its own, with the supervisor's settings and the next port of the REST
API. One that ends by itself starts again after a pause. The workers are leashed: they end when the
supervisor ends, for whatever reason. The command ends if a worker refuses its settings, or fails
several times soon after its start: the next start would fail for the same reason.
"""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import Final

from moldau.cli.command import Context

WORKERS_MAX: Final = 1_000
_AUTO: Final = "auto"
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
