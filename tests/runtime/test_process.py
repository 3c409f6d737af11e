"""Settings of a server process that several of its parts ask for."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from moldau.runtime.process import TURN_S, short_turns


def test_short_turns_last_until_the_last_part_that_wants_them_has_ended() -> None:
    """A registry and a console in one process end, and are tried again, in any order."""
    usual_s = sys.getswitchinterval()
    registry, console = ExitStack(), ExitStack()
    with registry, console:
        registry.enter_context(short_turns())
        console.enter_context(short_turns())
        registry.close()
        assert abs(sys.getswitchinterval() - TURN_S) < 1e-6, "the console still wants them"
        registry.enter_context(short_turns())
        console.close()
        assert abs(sys.getswitchinterval() - TURN_S) < 1e-6, "the registry still wants them"
    assert sys.getswitchinterval() == usual_s
