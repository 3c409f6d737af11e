"""The command `moldau`: one frame, and a subcommand for each entry point in `moldau.commands`.

`main` is the only place that touches the process: its arguments, its streams, its environment. All
else gets them in a `Context`. It imports next to nothing before it knows what it is asked for,
because a tool that takes half a second to print its version is not used in scripts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.plugins import Plugins

_FAILED = 1
_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `moldau`; answers the exit code."""
    _fill_standard_descriptors()
    try:
        from dataclasses import replace

        from moldau.cli.application import run
        from moldau.cli.command import Context
        from moldau.cli.output import closed_stream

        # None stands for a stream that our caller has closed: `moldau plugins >&-`. What stands
        # on its descriptor since is not that stream.
        out = sys.stdout or closed_stream(BrokenPipeError)
        err = sys.stderr or closed_stream()
        reconfigure = getattr(out, "reconfigure", None)
        if reconfigure is not None:  # a terminal that lacks a character is no reason to fail
            reconfigure(errors="backslashreplace")
        context = Context(out, err, os.environ, _find_plugins)
        if sys.stdin is not None:
            context = replace(context, source=sys.stdin.buffer)
        code = run(sys.argv[1:] if argv is None else argv, context)
        out.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        if sys.stdout is not None:
            # The output cannot be written: its reader has gone, its disk is full. What is left in
            # the buffer must go somewhere, or the interpreter complains when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return _BROKEN_PIPE
        if sys.stderr is not None:
            sys.stderr.write(f"moldau: the output cannot be written: {error.strerror}\n")
        return _FAILED
    return code


def _fill_standard_descriptors() -> None:
    """Has the null device stand where our caller has closed a standard stream. Else a file or the
    event loop gets that number, and libuv aborts a process that closes one of its own there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            filled = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(filled, True)


def _find_plugins() -> Plugins:
    from moldau.plugins import installed_plugins

    return installed_plugins()
