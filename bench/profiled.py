"""A broker that profiles itself on request.

    python -m bench.profiled DUMP broker start --data DIRECTORY ...

SIGUSR1 begins a profile of the event loop's thread. SIGUSR2 ends it and writes it to DUMP, complete
from the moment that file exists. Nothing is measured before, so the same process can be observed
from outside without the cost of profiling.
"""

from __future__ import annotations

import cProfile
import os
import signal
import sys
import time

from moldau.cli import main


def profile_when_asked(dump: str) -> None:
    """Handle both signals from now on. Call it in the thread that the event loop will run in."""
    profile: list[cProfile.Profile] = []

    def begin(*_: object) -> None:
        profile.append(cProfile.Profile(time.thread_time, builtins=False))
        profile[-1].enable()

    def end(*_: object) -> None:
        finished = profile.pop()
        finished.disable()
        finished.dump_stats(dump + ".unfinished")
        os.replace(dump + ".unfinished", dump)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)


if __name__ == "__main__":
    profile_when_asked(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
