"""`python -m moldau.spark.leashed SCRIPT ARGS`: run a script that ends when its parent does.

A part of a pipeline is started so. SIGTERM and the end of the parent raise KeyboardInterrupt in the
script, so its `finally` blocks run; then the process ends, and with it the Java of its sessions.
"""

from __future__ import annotations

import runpy
import sys
from os.path import dirname
from typing import Final

from moldau.runtime.signals import Terminated, interrupted_by_sigterm
from moldau.spark.job_java import leash_java

_TERMINATED: Final = 143


def main() -> None:
    """Run the script of the command line as `python SCRIPT ARGS` does."""
    leash_java()
    del sys.argv[0]
    sys.path[0] = dirname(sys.argv[0]) or "."
    try:
        with interrupted_by_sigterm():
            runpy.run_path(sys.argv[0], run_name="__main__")
    except Terminated:
        sys.exit(_TERMINATED)


if __name__ == "__main__":
    main()
