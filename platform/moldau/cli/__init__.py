"""The command `moldau`: one program, with a subcommand for each entry point in `moldau.commands`.

Only `main` uses the arguments, streams and environment of the process; everything else gets them in
a `Context`. Almost nothing is imported before the command is known, because scripts do not use a
tool that takes half a second to print its version.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.plugins import Plugins

_FAILED = 1
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_COLLECTED_EVERY = 200_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run `moldau` and return the exit code. Without `argv` the whole process is the command: its
    modules are no garbage, neither while they are imported nor at the exit."""
    if argv is None:
        gc.set_threshold(_COLLECTED_EVERY, *gc.get_threshold()[1:])
    _fill_standard_descriptors()
    try:
        from dataclasses import replace

        from moldau.cli.application import run
        from moldau.cli.command import Context
        from moldau.cli.output import closed_stream

        # None means that our caller closed the stream: `moldau plugins >&-`. Its descriptor may
        # belong to another file since then.
        out = sys.stdout or closed_stream(BrokenPipeError)
        err = sys.stderr or closed_stream()
        reconfigure = getattr(out, "reconfigure", None)
        if reconfigure is not None:  # a terminal without some character must not cause a failure
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
            # The output cannot be written: its reader has gone, or its disk is full. The rest of
            # the buffer must go somewhere, or the interpreter complains when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return _BROKEN_PIPE
        if sys.stderr is not None:
            sys.stderr.write(f"moldau: the output cannot be written: {error.strerror}\n")
        return _FAILED
    finally:
        if argv is None:
            gc.freeze()
    return code


def _fill_standard_descriptors() -> None:
    """Open the null device for each standard stream that our caller closed. Otherwise a file or the
    event loop gets that number, and libuv aborts a process that closes one of its own there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            filled = os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            os.set_inheritable(filled, True)


def _find_plugins() -> Plugins:
    from moldau.plugins import installed_plugins

    return installed_plugins()
