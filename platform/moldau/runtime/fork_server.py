"""A process that has imported the modules of its children, and forks them on request.

A new interpreter that imports a few hundred modules works for a second before it does anything; a
fork of a process that has them starts in milliseconds and shares their memory.

    python -m moldau.runtime.fork_server FD MODULE...    FD: the parent's socket

The parent writes one JSON object a line, and this process answers in the same way:

    {"fork": ID, "module": NAME, "imports": [MODULE]}     {"forked": ID, "pid": PID}
                                                      or  {"refused": ID, "why": TEXT}
    {"import": ID, "imports": [MODULE]}                   {"imported": ID}
    {"kill": PID}                                         {"ended": PID, "code": CODE}

A fork request comes with two descriptors, the child's standard input and output. The child runs
`main` of `NAME.__main__`; the imports are made before.

Invariants: this process has one thread whenever it forks, including threads that libraries start,
so a child inherits no held lock (otherwise it refuses, with the reason); it opens no connection and
has no event loop; a process is killed only before its end was read, so never another one with the
same id; it ends with its parent, and so does a child, whose standard input then ends.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Any, Final

READ_BYTES: Final = 65_536
DESCRIPTORS_MAX: Final = 64
_THREADS: Final = "/proc/self/task"
_NAME: Final = "/proc/self/comm"


class _Forked(Exception):
    """Raised in a child, which now runs this module."""

    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.module = module


class Server:
    """The fork server; it belongs to the only thread of its process."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._text = b""
        self._descriptors: deque[int] = deque()
        self._running: set[int] = set()

    def serve(self) -> None:
        """Serve until the parent has ended. In a child this raises `_Forked`."""
        self._control.setblocking(False)
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        ours.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._wakes = (ours, theirs)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(ours, select.POLLIN)
        while True:
            poll.poll()
            with suppress(BlockingIOError):
                ours.recv(READ_BYTES)
            self._reap()
            if not self._obey():
                return

    def _obey(self) -> bool:
        """Read and execute the parent's requests. Return False when the parent has ended."""
        while True:
            try:
                read, descriptors, _, _ = socket.recv_fds(
                    self._control, READ_BYTES, DESCRIPTORS_MAX
                )
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not read:
                return False
            self._descriptors.extend(descriptors)
            *lines, self._text = (self._text + read).split(b"\n")
            for line in lines:
                self._do(json.loads(line))

    def _do(self, order: dict[str, Any]) -> None:
        if "fork" in order:
            source, sink = self._descriptors.popleft(), self._descriptors.popleft()
            try:
                self._fork(order, source, sink)
            finally:
                os.close(source)
                os.close(sink)
        elif "import" in order:
            preload(name for name in order["imports"] if name not in sys.modules)
            self._tell({"imported": order["import"]})
        elif order.get("kill") in self._running:
            os.kill(order["kill"], signal.SIGKILL)

    def _fork(self, order: dict[str, Any], source: int, sink: int) -> None:
        preload(name for name in order["imports"] if name not in sys.modules)
        why = _why_not()
        if why is not None:
            self._tell({"refused": order["fork"], "why": why})
            return
        try:
            pid = os.fork()
        except OSError as error:
            self._tell({"refused": order["fork"], "why": str(error)})
            return
        if pid == 0:
            self._become_child(source, sink)
            raise _Forked(order["module"])
        self._running.add(pid)
        self._tell({"forked": order["fork"], "pid": pid})

    def _become_child(self, source: int, sink: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for mine in (self._control, *self._wakes):
            mine.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        os.dup2(source, 0)
        os.dup2(sink, 1)

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._running.discard(pid)
            self._tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})

    def _tell(self, answer: dict[str, Any]) -> None:
        """Send an answer. If the parent has ended, nothing happens; its end is read next."""
        self._control.setblocking(True)
        with suppress(OSError):
            self._control.sendall(json.dumps(answer).encode() + b"\n")
        self._control.setblocking(False)


def preload(modules: Iterable[str]) -> None:
    """Import those modules that can be imported; a child that needs another one will report it."""
    has_imported = False
    for name in modules:
        with suppress(Exception):
            import_module(name)
            has_imported = True
    if has_imported:
        gc.collect()
        gc.freeze()  # so that a collection in a child does not write to shared pages


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing; with a handler the signal wakes `poll`."""


def _why_not() -> str | None:
    """Return why a fork would not be safe; None if it is."""
    try:
        count = len(os.listdir(_THREADS))  # including those of C libraries
    except OSError:
        import threading

        count = threading.active_count()
    if count == 1:
        return None
    return f"{count - 1} threads run in the fork server: a module that it imports starts them"


def _rename(name: str) -> None:
    """Set the name that `ps -c` and `top` show."""
    with suppress(OSError), open(_NAME, "w") as file:
        file.write(name)


def main() -> None:
    """Run the server, and in each fork the child's module."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    preload(sys.argv[2:])
    server = Server(control)
    try:
        server.serve()
    except _Forked as child:
        module = child.module
    else:
        return
    del server
    _rename(module.rpartition(".")[2])
    sys.argv[:] = [module]
    import_module(f"{module}.__main__").main()


if __name__ == "__main__":
    main()
