"""`python -m moldau.spark.leashed SCRIPT ARGS`: run a script. Its Java ends when the script does.

`moldau spark run` starts a script so. SIGTERM raises KeyboardInterrupt in the script, so its
`finally` blocks run; then the process ends, and with it the Java of its sessions. A part of a
pipeline ends with its parent, too: the end of the parent is a SIGTERM.

The traceback of a script that fails has the script's frames alone, as with `python SCRIPT`.

Invariant: the script is the module `__main__` from its start to the end of the process, so that its
threads may outlive its last line, and values of its classes can be pickled.
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from os.path import dirname
from types import ModuleType, TracebackType
from typing import Final

from moldau.runtime.places import absolute_path, resolved_path
from moldau.runtime.signals import Terminated, interrupted_by_sigterm
from moldau.spark.job_java import leash_java

_TERMINATED: Final = 143


def main() -> None:
    """Run the script of the command line as `python SCRIPT ARGS` does."""
    leash_java()
    del sys.argv[0]
    script = absolute_path(sys.argv[0])
    if not sys.flags.safe_path:  # else no folder stands before the others
        sys.path[0] = dirname(resolved_path(script))
    try:
        with interrupted_by_sigterm():
            _run(script)
    except Terminated:
        sys.exit(_TERMINATED)
    except Exception as error:
        own = error.with_traceback(_frames_of(script, error.__traceback__))
        sys.excepthook(type(own), own, own.__traceback__)
        sys.exit(1)


def _run(script: str) -> None:
    """Run a file as the module `__main__`, in place of this one."""
    loader = SourceFileLoader("__main__", script)
    code = loader.source_to_code(loader.get_data(script), script)
    main = ModuleType("__main__")
    main.__file__, main.__loader__ = script, loader
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102 - what the user wants to run


def _frames_of(script: str, trace: TracebackType | None) -> TracebackType | None:
    """Return the frames from the script on; None if the script was not run, as it has a mistake in
    its syntax."""
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    main()
