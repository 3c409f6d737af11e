"""Forks of real processes: who hears of them, and what a child can still do to its parent."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_child_hears_of_it_once_and_cannot_reach_the_parents_connection() -> None:
    done = subprocess.run(  # noqa: S603 (fixed arguments)
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("from the parent\n", "")
