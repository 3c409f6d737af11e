"""A program on a leash ends with the process that has started it, however that ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends orphans"),
]

PATIENCE_S: Final = 30.0
DEAF: Final = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
"""A program that does not end on SIGTERM, and reads no standard input."""
PARENT: Final = """
import os, signal, sys
from moldau.runtime.program_leash import ProgramLeash

leash = ProgramLeash(end_s=0.1)
waits = "import time; print('runs', flush=True); time.sleep(1000)"
ready, ended = os.pipe()

def told():
    sys.stdout.write(f"{os.getpid()}\\n")
    sys.stdout.flush()

def interrupted(*_):
    raise KeyboardInterrupt

def program(lines="", **options):
    return leash.start([sys.executable, "-c", lines + "\\n" + waits], **options)

"""


@contextmanager
def parent(lines: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a parent with these lines; its first line of output is the id of its program."""
    with subprocess.Popen(  # noqa: S603 - our own lines
        [sys.executable, "-c", PARENT + lines],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def has_ended(pid: int) -> bool:
    """Wait for the end of a process that is no child of this one."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], PATIENCE_S)[0])
    finally:
        os.close(watched)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


MOMENTS: Final = {
    "it runs": f"p = program({DEAF!r}, stdout=-1)\np.stdout.readline()\n"
    "print(p.pid, flush=True)\nsys.stdin.read()",
    "it has just been forked": "program(preexec_fn=lambda: (told(), signal.pause()))",
    "its starter has been interrupted": """
signal.signal(signal.SIGALRM, interrupted)
try:
    program(preexec_fn=lambda: (os.kill(os.getppid(), signal.SIGALRM), told(), signal.pause()))
except KeyboardInterrupt:
    sys.stdin.read()
""",
    "another thread has started it": f"""
import threading
def begin():
    p = program({DEAF!r}, stdout=-1)
    p.stdout.readline()
    print(p.pid, flush=True)
each = threading.Thread(target=begin)
each.start()
each.join()
sys.stdin.read()
""",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_program_ends_with_a_killed_process(moment: str) -> None:
    with parent(MOMENTS[moment]) as (process, pid):
        process.kill()
        process.wait()
        assert has_ended(pid)


ENDS: Final = {
    "it returns": "",
    "it raises": "raise KeyboardInterrupt",
    "it ends at once": "os._exit(3)",
    "a signal ends it": "os.kill(os.getpid(), signal.SIGTERM)",
}


@pytest.mark.parametrize("program", ["", DEAF])
@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_with_each_end_of_its_process(end: str, program: str) -> None:
    lines = f"p = program({program!r}, stdout=-1)\np.stdout.readline()\nprint(p.pid, flush=True)\n"
    with parent(lines + ENDS[end]) as (_, pid):
        assert has_ended(pid)


def test_a_program_lasts_while_its_process_does() -> None:
    lines = f"""
import threading
made = []
each = threading.Thread(target=lambda: made.append(program({DEAF!r}, stdout=-1)))
each.start()
each.join()
made[0].stdout.readline()
print(made[0].pid, flush=True)
sys.stdin.readline()
print(made[0].poll(), flush=True)
sys.stdin.read()
"""
    with parent(lines) as (process, _):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "None\n"


def test_an_orderly_end_gives_a_program_time_for_its_clean_up() -> None:
    lines = """
leash = ProgramLeash()
tidies = '''
import signal, sys
def tidy(*_):
    print("tidied", flush=True)
    raise SystemExit(7)
signal.signal(signal.SIGTERM, tidy)
'''
p = program(tidies, stdout=-1)
p.stdout.readline()
print(p.pid, flush=True)
leash.end()
print(p.stdout.read().decode().strip(), p.returncode, flush=True)
"""
    with parent(lines) as (process, pid):
        assert process.stdout is not None
        assert process.stdout.readline() == "tidied 7\n"
        assert has_ended(pid)


def test_a_program_that_cannot_be_started_is_an_error_of_its_starter() -> None:
    lines = """
try:
    leash.start(["/nonexistent/program"])
except FileNotFoundError:
    print(os.getpid(), flush=True)
"""
    with parent(lines) as (process, pid):
        assert pid == process.pid
