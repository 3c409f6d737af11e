"""Functions that a simulated node cannot use, with a clear error.

Real descriptors, processes, signals and threads would let the outside world influence a run.
asyncio's functions for them raise `RealWorldRefused` with the name of the function, instead of the
bare NotImplementedError of an incomplete event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn


class RealWorldRefused(RuntimeError):
    """Simulated code used something that only exists outside the simulation."""


def refuse(what: str, instead: str) -> NoReturn:
    """Raise RealWorldRefused with the rejected use and its alternative."""
    raise RealWorldRefused(f"{what} is not there in a simulation: {instead}")


def _refused(name: str, instead: str) -> Any:
    def method(self: object, *args: object, **kwargs: object) -> NoReturn:
        refuse(f"loop.{name}()", instead)

    method.__name__ = name
    return method


_SOCKET = "a simulated socket has no descriptor; use protocols or streams"
_TCP = "only TCP between nodes is simulated"
_PROCESS = "a simulated node is one process; start another node"
_SIGNAL = "stop the node through its `Node`"


class RefusingLoop(asyncio.AbstractEventLoop):
    """An event loop without any access to the real world."""

    add_reader = _refused("add_reader", _SOCKET)
    remove_reader = _refused("remove_reader", _SOCKET)
    add_writer = _refused("add_writer", _SOCKET)
    remove_writer = _refused("remove_writer", _SOCKET)
    sock_recv = _refused("sock_recv", _SOCKET)
    sock_recv_into = _refused("sock_recv_into", _SOCKET)
    sock_recvfrom = _refused("sock_recvfrom", _SOCKET)
    sock_recvfrom_into = _refused("sock_recvfrom_into", _SOCKET)
    sock_sendall = _refused("sock_sendall", _SOCKET)
    sock_sendto = _refused("sock_sendto", _SOCKET)
    sock_connect = _refused("sock_connect", _SOCKET)
    sock_accept = _refused("sock_accept", _SOCKET)
    sock_sendfile = _refused("sock_sendfile", _SOCKET)
    sendfile = _refused("sendfile", _SOCKET)
    connect_accepted_socket = _refused("connect_accepted_socket", _SOCKET)
    create_datagram_endpoint = _refused("create_datagram_endpoint", _TCP)
    create_unix_connection = _refused("create_unix_connection", _TCP)
    create_unix_server = _refused("create_unix_server", _TCP)
    start_tls = _refused("start_tls", _TCP)
    subprocess_exec = _refused("subprocess_exec", _PROCESS)
    subprocess_shell = _refused("subprocess_shell", _PROCESS)
    connect_read_pipe = _refused("connect_read_pipe", _PROCESS)
    connect_write_pipe = _refused("connect_write_pipe", _PROCESS)
    add_signal_handler = _refused("add_signal_handler", _SIGNAL)
    remove_signal_handler = _refused("remove_signal_handler", _SIGNAL)
