"""Looks host names up without the event loop's own resolver.

uvloop's resolver works on threads of libuv. A process that has them cannot be forked: the child has
no copies of them and crashes when it ends. So the system's resolver is called on a Python thread,
as asyncio does it, and uvloop gets connected or bound sockets.

Invariant: the addresses behind a name are tried one after another in the resolver's order; if all
fail, the error is theirs, or one that lists all of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from contextlib import ExitStack
from errno import EINPROGRESS, EINTR
from functools import partial
from typing import Any, Final, NamedTuple

from moldau.errors import without_frames

_NETWORK_BITS: Final = 64
_UNDER_WAY: Final = (EINPROGRESS, EINTR)


class ResolvedAddress(NamedTuple):
    """One address behind a name, as the resolver returns it."""

    family: int
    kind: int
    protocol: int
    canonical_name: str
    address: Any

    @property
    def host(self) -> str:
        """The address as text, with its link if it is only valid there."""
        host, _, *ipv6 = self.address
        scope = ipv6[1] if ipv6 else 0
        return f"{host}%{scope}" if scope else str(host)

    def socket(self) -> socket.socket:
        """Return a new socket of this family and kind."""
        return socket.socket(self.family, self.kind, self.protocol)


def is_address(host: str) -> bool:
    """Whether the host is an address, so that no look-up is needed."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def network_of(host: str) -> str:
    """Return an IPv4 address, or the network of an IPv6 address: one client has many addresses of
    it. Other text stays as it is."""
    if ":" not in host or "." in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(int(address) >> _NETWORK_BITS)


def plain_address(host: str) -> str | None:
    """Return an address in the resolver's form; None for a name, or an address with a link."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, host))
        except OSError:
            continue
    return None


async def look_up(host: str | None, port: int, *, flags: int = 0) -> list[ResolvedAddress]:
    """Return the addresses behind a name. Raise socket.gaierror. At the end of a program the
    executors are already gone: then the loop itself waits for the resolver."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=flags)
    try:
        asked = asyncio.get_running_loop().run_in_executor(None, ask)
    except RuntimeError:
        found = ask()
    else:
        found = await asked
    return [ResolvedAddress(*each) for each in found]


async def connected(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to an address of this name. Raise OSError if all fail."""
    failures: list[OSError] = []
    for found in await look_up(host, port):
        try:
            return await _connected_to(found)
        except OSError as error:
            failures.append(without_frames(error))
    if len({each.errno for each in failures}) == 1:
        raise without_frames(failures[0])
    raise OSError(f"Multiple exceptions: {', '.join(map(str, failures))}")


async def bound(host: str | None, port: int) -> list[socket.socket]:
    """Return sockets that are bound to the addresses of this name (None: all of this machine).
    Raise OSError with asyncio's text."""
    error: OSError | None = None
    with ExitStack() as unless_all_are_bound:
        binding: list[socket.socket] = []
        for found in dict.fromkeys(await look_up(host, port, flags=socket.AI_PASSIVE)):
            try:
                each = found.socket()
            except OSError as failure:  # a family that this machine does not have
                error = without_frames(failure)
                continue
            unless_all_are_bound.callback(each.close)
            _bind(each, found)
            binding.append(each)
        if error is not None and not binding:
            raise error
        unless_all_are_bound.pop_all()
        return binding


def _bind(binding: socket.socket, found: ResolvedAddress) -> None:
    binding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if found.family == socket.AF_INET6:
        binding.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        binding.bind(found.address)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        said = f"error while attempting to bind on address {found.address!r}: {why}"
        raise OSError(error.errno, said) from None


async def _connected_to(found: ResolvedAddress) -> socket.socket:
    connecting = found.socket()
    with ExitStack() as unless_connected:
        unless_connected.callback(connecting.close)
        connecting.setblocking(False)
        error = connecting.connect_ex(found.address)
        if error in _UNDER_WAY:
            await _writable(connecting)
            error = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        unless_connected.pop_all()
    return connecting


async def _writable(connecting: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(connecting, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(connecting)
