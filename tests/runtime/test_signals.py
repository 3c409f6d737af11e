"""The first signal asks, the second ends: a process of its own says what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
import threading
from contextlib import suppress

import pytest

from moldau.runtime.signals import LEASH, LEASH_ON_STDIN, Terminated, interrupted_by_sigterm
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real


@pytest.mark.parametrize("raises", [True, False])
def test_sigterm_can_be_what_ctrl_c_is_for_a_while(*, raises: bool) -> None:
    with suppress(KeyboardInterrupt), interrupted_by_sigterm():
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "the second one ends it"
        if raises:
            raise KeyboardInterrupt
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_who_minds_sigterm_and_other_threads_are_left_alone() -> None:
    seen: list[object] = []

    def look() -> None:
        with interrupted_by_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    own = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        look()
    finally:
        signal.signal(signal.SIGTERM, own)
    assert seen == [signal.SIG_DFL, signal.SIG_IGN]


COUNTS = """
import asyncio, sys
from moldau.runtime.real import run
from moldau.runtime.signals import counted_signals, until_signal

async def work():
    with counted_signals(lambda step: print(step, flush=True)):
        print("up", flush=True)
        await asyncio.Event().wait()

run(lambda _: until_signal(work()), loop="{loop}")
"""


def counting(loop: str, error: int) -> subprocess.Popen[str]:
    """Up, with this standard error. It has a group of its own in this session: the system stops
    none of a group that has no parent in the session, as a test run without a terminal may be."""
    process = subprocess.Popen(  # noqa: S603 (ours)
        [sys.executable, "-c", COUNTS.format(loop=loop)],
        stdout=subprocess.PIPE, stderr=error, text=True, process_group=0,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("loop", ["asyncio", "auto"])
def test_sigttin_and_sigttou_count_up_and_down(loop: str) -> None:
    process = counting(loop, subprocess.DEVNULL)
    assert process.stdout is not None
    for number, step in ((signal.SIGTTIN, 1), (signal.SIGTTOU, -1), (signal.SIGTTIN, 1)):
        process.send_signal(number)
        assert int(process.stdout.readline()) == step
    process.terminate()
    assert process.communicate(timeout=30)[0] == ""


def test_a_terminal_that_stops_programs_in_the_background_keeps_its_signals() -> None:
    ours, terminal = os.openpty()
    attributes = termios.tcgetattr(terminal)
    attributes[3] |= termios.TOSTOP
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    process = counting("asyncio", terminal)
    process.send_signal(signal.SIGTTOU)

    def is_stopped() -> bool:
        pid, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
        return pid != 0 and os.WIFSTOPPED(status)

    eventually(is_stopped, within_s=30)
    process.kill()
    assert process.communicate(timeout=30)[0] == ""
    os.close(ours)
    os.close(terminal)


PROGRAM = """
import asyncio, signal, sys
signal.signal(signal.SIGHUP, signal.{hangup})
from moldau.runtime.real import run
from moldau.runtime.signals import until_signal

async def work():
    try:
        print("up", flush=True)
        await asyncio.Event().wait()
    finally:
        print("ending", flush=True)
        if {stuck}:
            while True:
                pass

async def main(runtime):
    print("heard", await until_signal(work()), flush=True)

run(main, loop="{loop}")
"""


def started(loop: str, *, stuck: bool, hangup: str = "SIG_DFL") -> subprocess.Popen[str]:
    """Up, and waiting."""
    program = PROGRAM.format(loop=loop, stuck=stuck, hangup=hangup)
    process = subprocess.Popen(  # noqa: S603 (ours)
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("loop", ["asyncio", "auto"])
def test_the_first_signal_ends_the_work_in_order(loop: str, number: signal.Signals) -> None:
    process = started(loop, stuck=False)
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)

    assert out == f"ending\nheard {number.name}\n"
    assert process.returncode == 0


@pytest.mark.parametrize("loop", ["asyncio", "auto"])
def test_who_was_started_to_outlive_its_terminal_does(loop: str) -> None:
    process = started(loop, stuck=False, hangup="SIG_IGN")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)

    assert out == "ending\nheard SIGTERM\n"
    assert process.returncode == 0


@pytest.mark.parametrize("loop", ["asyncio", "auto"])
def test_the_second_signal_ends_a_process_that_is_stuck(loop: str) -> None:
    process = started(loop, stuck=True)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=30) == -signal.SIGTERM
    process.stdout.close()


@pytest.mark.parametrize("loop", ["asyncio", "auto"])
def test_the_end_of_a_parent_that_holds_the_leash_ends_the_work(loop: str) -> None:
    process = leashed(loop, stuck=False)
    assert process.stdin is not None
    process.stdin.write("what is written means nothing\n")
    process.stdin.flush()
    out, _ = process.communicate(timeout=30)  # closes its standard input

    assert out == "ending\nheard SIGTERM\n"
    assert process.returncode == 0


def test_an_orphan_that_is_stuck_ends_all_the_same() -> None:
    process = leashed("asyncio", stuck=False, ending="await asyncio.sleep(3600)")

    process.communicate(timeout=30)

    assert process.returncode == 137


def leashed(loop: str, *, stuck: bool, ending: str = "pass") -> subprocess.Popen[str]:
    """Up, and at the end of our pipe; `ending` runs when it is to end."""
    program = PROGRAM.format(loop=loop, stuck=stuck, hangup="SIG_DFL").replace(
        'print("ending", flush=True)', f'print("ending", flush=True); {ending}'
    )
    process = subprocess.Popen(  # noqa: S603 (ours)
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, LEASH: LEASH_ON_STDIN},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


BLOCK = """
import signal
from moldau.runtime.signals import Terminated, interrupted_by_sigterm
try:
    with interrupted_by_sigterm():
        print("up", flush=True)
        while True:
            signal.pause()
except Terminated:
    print("in order", flush=True)
"""


def test_the_end_of_the_parent_is_a_sigterm_for_a_leashed_block() -> None:
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", BLOCK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, LEASH: LEASH_ON_STDIN},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.stdin.close()
        assert process.stdout.read() == "in order\n"
    assert process.returncode == 0
