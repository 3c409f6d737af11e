"""fdatasync of many files at once, by the kernel's own workers: Linux's asynchronous IO.

Invariants: a file is synced by a call that began after `sync` was called, and its outcome is the
kernel's own; a caller gets its result when the last of its files is done; `close` waits for the
syncs under way. A file may be closed meanwhile: the kernel keeps a reference.

Why not threads: to wake a thread costs the event loop 20-40 us a file, and then both need the same
interpreter. Here a round of six files is one system call, and one wake-up when they are done: it
needs 130 us of this process's CPU against 370-500. The workers have a cost, too: they run on the
processor of the caller, before it, and wait for their turn like any process. So a round may take
longer than with threads, and the caller compares both. (io_uring is not used, since containers
forbid it by default.) If the kernel has no such call or does not allow it, `open_kernel_sync`
returns None, and threads must be used.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from moldau.runtime.interface import Outcome, Syncs

if TYPE_CHECKING:
    from moldau.runtime.files import File

DEPTH: Final = 64
"""The number of files under way at once."""

_CALLS: Final = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""The numbers of io_setup, io_destroy, io_getevents and io_submit."""
_FDSYNC: Final = 3
_TELL_EVENTFD: Final = 1
_REQUEST: Final = Struct("<QIiHhIQQqQII")
"""struct iocb: data, key, flags, operation, priority, descriptor, buffer, bytes, offset, reserved,
flags, eventfd."""
_EVENT: Final = Struct("<QQqq")
"""struct io_event: data, request, result, second result."""
_POINTER_BYTES: Final = ctypes.sizeof(ctypes.c_void_p)


class _Round:
    """Files of one call of `sync`."""

    __slots__ = ("done", "files", "left", "outcomes")

    def __init__(self, files: Sequence[File], done: asyncio.Future[list[Outcome]]) -> None:
        self.files = files
        self.outcomes: list[Outcome] = [None] * len(files)
        self.left = len(files)
        self.done = done

    def end(self, number: int, result: int) -> None:
        """Record the kernel's result for one file: negative is the number of an error."""
        if result < 0:
            self.outcomes[number] = OSError(-result, os.strerror(-result), self.files[number].path)
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(self.outcomes)


class KernelSync:
    """Syncs files with the kernel; created by `open_kernel_sync` and used on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, numbers: tuple[int, int, int, int]) -> None:
        """Set the kernel's context up. Raise OSError if the kernel refuses."""
        self._loop = loop
        # Calls that never wait keep the interpreter lock: releasing it costs more than the calls.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        setup, self._destroy, self._get_events, self._submit = map(ctypes.c_long, numbers)
        self._context = context = ctypes.c_ulong(0)
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if self._call(setup, ctypes.c_long(DEPTH), ctypes.byref(context)) < 0:
            os.close(self._eventfd)
            raise OSError(ctypes.get_errno(), "io_setup")
        self._requests = ctypes.create_string_buffer(DEPTH * _REQUEST.size)
        self._events = ctypes.create_string_buffer(DEPTH * _EVENT.size)
        self._depth = ctypes.c_long(DEPTH)
        start = ctypes.addressof(self._requests)
        self._addresses = [start + slot * _REQUEST.size for slot in range(DEPTH)]
        self._pointers = (ctypes.c_void_p * DEPTH)()
        self._free = list(range(DEPTH))
        self._waiting: dict[int, tuple[_Round, int]] = {}
        loop.add_reader(self._eventfd, self._on_events)

    def sync(self, files: Sequence[File]) -> Syncs | None:
        """Sync as many of these as the kernel accepts, from the first on; None if it accepts
        none."""
        # A file that is closed raises here, before any slot is taken.
        descriptors = [each.fileno() for each in files[: len(self._free)]]
        slots = [self._free.pop() for _ in descriptors]
        for number, slot in enumerate(slots):
            _REQUEST.pack_into(
                *(self._requests, slot * _REQUEST.size, slot, 0, 0, _FDSYNC, 0),
                *(descriptors[number], 0, 0, 0, 0, _TELL_EVENTFD, self._eventfd),
            )
            self._pointers[number] = self._addresses[slot]
        taken = self._submitted(len(slots))
        self._free += slots[taken:]
        if not taken:
            return None
        current = _Round(files[:taken], self._loop.create_future())
        for number, slot in enumerate(slots[:taken]):
            self._waiting[slot] = current, number
        return Syncs(taken, current.done)

    def close(self) -> None:
        """Wait for the syncs under way, and drop their outcomes."""
        self._loop.remove_reader(self._eventfd)
        system = ctypes.CDLL(None, use_errno=True).syscall  # releases the GIL: it waits
        system(self._destroy, self._context)
        os.close(self._eventfd)

    def _submitted(self, count: int) -> int:
        """Return the number of requests that the kernel has accepted, from the first on."""
        taken = 0
        while taken < count:
            first = ctypes.byref(self._pointers, taken * _POINTER_BYTES)
            more = self._call(self._submit, self._context, ctypes.c_long(count - taken), first)
            if more <= 0:
                break
            taken += more
        return taken

    def _on_events(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._eventfd)
        count = self._call(
            *(self._get_events, self._context, ctypes.c_long(0), self._depth, self._events, None)
        )
        for number in range(max(count, 0)):
            slot, _, result, _ = _EVENT.unpack_from(self._events, number * _EVENT.size)
            self._free.append(slot)
            current, place = self._waiting.pop(slot)
            current.end(place, result)


def open_kernel_sync(loop: asyncio.AbstractEventLoop) -> KernelSync | None:
    """Return a KernelSync; None if the system does not have it, or does not allow it."""
    numbers = _CALLS.get(os.uname().machine) if sys.platform == "linux" else None
    if numbers is None:
        return None
    try:
        return KernelSync(loop, numbers)
    except (OSError, NotImplementedError):
        return None
