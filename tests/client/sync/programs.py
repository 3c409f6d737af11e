"""Python programs that run in processes of their own."""

from __future__ import annotations

import subprocess
import textwrap

from tests.programs import FORKING

WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None\n"


def run(program: str, *arguments: str) -> str:
    """What the program prints; the test fails if it does, or if it writes to stderr."""
    done = run_any(program, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_any(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    return subprocess.run(  # noqa: S603
        [*FORKING, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def begin(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Runs a program that is talked to."""
    return subprocess.Popen(  # noqa: S603
        [*FORKING, "-c", program, *arguments],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
