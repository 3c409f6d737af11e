"""Forks of real processes: who hears of them, and what a child can still do to its parent."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, socket, threading
from moldau.runtime.forks import hear_of_forks, let_go

class Connections:
    pid = os.getpid()

    def forked(self):
        assert os.getpid() != self.pid
        assert threading.active_count() == 1
        told.append("told")
        let_go(ours.fileno())

told = []
ours, peers = socket.socketpair()
kept, dropped = Connections(), Connections()
hear_of_forks(kept)
hear_of_forks(dropped)
hear_of_forks(kept)
del dropped
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
child = os.fork()
if not child:
    assert told == ["told"]
    for harm in (lambda: ours.send(b"from the child"), lambda: ours.shutdown(socket.SHUT_RDWR)):
        try:
            harm()
        except OSError:
            pass
    assert os.write(ours.fileno(), b"from the child")
    ours.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert told == []
ours.send(b"from the parent")
print(peers.recv(100).decode())
stop.set()
ours.close()
peers.close()
"""


def run(program: str, *arguments: str) -> tuple[str, str]:
    """What it writes."""
    done = subprocess.run(  # noqa: S603 (fixed arguments)
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout, done.stderr


def test_a_child_hears_of_it_once_and_cannot_reach_the_parents_connection() -> None:
    assert run(PROGRAM) == ("from the parent\n", "")


ONE_FAILS = """
import os
from moldau.runtime.forks import hear_of_forks

class Hearer:
    def forked(self):
        print("told", flush=True)
        raise ValueError("so it is")

hearers = [Hearer() for _ in range(3)]
for each in hearers:
    hear_of_forks(each)
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
"""


def test_one_that_fails_is_told_of_and_keeps_nobody_from_hearing() -> None:
    told, errors = run(ONE_FAILS)
    assert told == "told\n" * 3
    assert "ValueError: so it is" in errors


WITHOUT_A_DESCRIPTOR = """
import errno, os, socket, sys
from moldau.runtime.forks import let_go

opens, failures = os.open, [OSError(int(sys.argv[1]), "too many")]

def open_if_free(path, flags):
    if failures:
        raise failures.pop()
    return opens(path, flags)

os.open = open_if_free
ours, peers = socket.socketpair()
let_go(ours.fileno())
assert not failures
assert os.write(ours.fileno(), b"to nobody") == 9
print(peers.recv(10))
failures.append(OSError(errno.ENOENT, "no such device"))
try:
    let_go(0)
except FileNotFoundError:
    print("no such device")
"""


@pytest.mark.parametrize("limit", [errno.EMFILE, errno.ENFILE])
def test_without_a_free_descriptor_a_connection_is_let_go_all_the_same(limit: int) -> None:
    told, _ = run(WITHOUT_A_DESCRIPTOR, str(limit))
    assert told == "b''\nno such device\n"


WHILE_IMPORTING = """
import builtins, os, signal, sys, threading
from moldau.runtime.forks import import_whole

sys.path.insert(0, sys.argv[1])
builtins.importing, builtins.forked = threading.Event(), threading.Event()
os.register_at_fork(after_in_parent=builtins.forked.set)
thread = threading.Thread(target=import_whole, args=("slow",))
thread.start()
builtins.importing.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    import slow
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


def test_nobody_forks_in_the_middle_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import builtins\nbuiltins.importing.set()\nbuiltins.forked.wait(0.2)\n"
    )
    assert run(WHILE_IMPORTING, str(tmp_path)) == ("0\n", "")
