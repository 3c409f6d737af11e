"""Which process holds a port or a file's lock, as far as the system tells.

Linux tells it in /proc, for processes of the same user; elsewhere, and for processes of others, the
answer is None. It is for messages alone: a process may be gone by the time they are read.

A holder is the process to stop. A shard of a broker is started again by its parent when it ends, so
its parent is the holder.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from typing import Final, NamedTuple

_LISTENS: Final = "0A"
_SHOWN_CHARS: Final = 80
_RESTARTED: Final = "--shard"
"""An argument of processes that their parent starts again."""


class Holder(NamedTuple):
    """A process, by its id and command line."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


def is_port_taken(host: str, port: int) -> bool:
    """Whether another socket listens at this address. False for port 0 and for unknown names."""
    if port == 0:
        return False
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=1)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(address)
                tried.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
    return False


def port_holder(port: int) -> Holder | None:
    """Return a process that listens at this port, at any address."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    if not sockets:
        return None
    for pid in _pids():
        if any(link in sockets for link in _open_files(pid)):
            return _holder(pid)
    return None


def port_in_use(host: str, port: int, option: str) -> str | None:
    """Return the text of an error if another process listens at this address: which one, and the
    option that gives another port; None if the port is free."""
    if not is_port_taken(host, port):
        return None
    holder = port_holder(port) or "another process"
    return f"cannot listen: the port is in use by {holder}: stop it, or give {option}"


def lock_holder(path: str) -> Holder | None:
    """Return a process that holds a lock of this file."""
    try:
        inode = os.stat(path).st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            lines = [line.split() for line in locks]
    except (OSError, ValueError):
        return None
    for words in lines:
        if len(words) > 5 and words[5].rpartition(":")[2] == str(inode) and words[1] != "->":
            pid = int(words[4])
            if pid > 0 and path in _open_files(pid):
                return _holder(pid)
    return None


def _holder(pid: int) -> Holder:
    """Return the process, or the parent that starts it again."""
    while _RESTARTED in _words(pid) and (parent := _parent(pid)) > 1:
        pid = parent
    return Holder(pid, _command(pid))


def _parent(pid: int) -> int:
    """Return the id of the parent; 0 if it is not known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name in parentheses before may have spaces and parentheses itself.
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of sockets that listen at the port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        for row in rows:
            if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port:
                yield row[9]


def _pids() -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
    except OSError:
        return []


def _open_files(pid: int) -> list[str]:
    """Return what the descriptors of a process are links to; nothing for a process of others."""
    folder, found = f"/proc/{pid}/fd", []
    try:
        for name in os.listdir(folder):
            found.append(os.readlink(f"{folder}/{name}"))
    except OSError:
        pass
    return found


def _words(pid: int) -> list[str]:
    """Return the command line of a process; nothing if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def _command(pid: int) -> str:
    words = _words(pid)
    if not words:
        return "ended"
    if len(words) > 1 and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
    text = " ".join([os.path.basename(words[0]), *words[1:]]).strip()
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
