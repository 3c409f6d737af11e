"""Disconnects a process from its peers, as a switch that fails does: both ends see the end of the
connection, and both processes live on."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_PIDFD_GETFD: Final = 438
_SOCKET: Final = "socket:["


def disconnect(pid: int) -> int:
    """Shut down all TCP connections of a process, which has to be a child. Return how many these
    were. Linux only (pidfd_getfd)."""
    process = os.pidfd_open(pid)
    try:
        return sum(_shut_down(process, int(each.name)) for each in _sockets_of(pid))
    finally:
        os.close(process)


def _sockets_of(pid: int) -> list[Path]:
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if str(each.readlink()).startswith(_SOCKET):
                found.append(each)
    return found


def _shut_down(process: int, descriptor: int) -> bool:
    copied = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, descriptor, 0)
    if copied < 0:
        return False  # it has just been closed
    if not stat.S_ISSOCK(os.fstat(copied).st_mode):
        os.close(copied)  # it has just been closed, and its number is that of another file
        return False
    with socket.socket(fileno=copied) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        try:
            connection.getpeername()
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
        return True
