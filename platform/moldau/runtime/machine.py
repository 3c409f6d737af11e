"""What the system says of this machine: limits, memory, clock, names and ports.

    facts = machine_facts()

A figure that a system does not offer is None; nothing is judged here. `Pending` asks beside other
questions and can be left: a name server may be silent for half a minute.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from moldau.deferred import dataclass
from moldau.errors import MoldauError, without_frames
from moldau.runtime.holders import is_port_taken, port_holder
from moldau.runtime.process_figures import memory_limit, usable_cores

T = TypeVar("T")

_KIB: Final = 1024
_TIMEX_BYTES: Final = 512  # more than any system's struct timex
_UNSYNCHRONISED: Final = 5
"""What adjtimex returns if nothing sets the clock (TIME_ERROR)."""
_IMPORTS: Final = """
import importlib, json, sys
for name in sys.argv[1:]:
    print(json.dumps([name]), flush=True)
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
    else:
        print(json.dumps([name, None]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class OpenFilesLimits:
    """How many files a process may open, now and after raising its limit. None: any number."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Memory in bytes; `limit_bytes` is the limit of the container, None without one."""

    total_bytes: int
    available_bytes: int
    swap_bytes: int
    swap_free_bytes: int
    limit_bytes: int | None


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """The wall clock, and whether something sets it by a time server; None if nothing says it.

    `jump_s` is how far it has moved against the monotonic clock since this module was imported.
    """

    now_s: float
    installed_s: float
    """When moldau's files were written: no clock that is right shows an earlier time."""
    jump_s: float
    is_synchronised: bool | None


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The figures of one moment."""

    open_files: OpenFilesLimits | None
    mappings_max: int | None
    memory: MemoryFacts | None
    cpus: int
    usable_cores: float
    """Those of them that a process here may use."""


@dataclass(frozen=True, slots=True)
class NameFacts:
    """The addresses of a host name, or why there are none."""

    name: str
    addresses: tuple[str, ...]
    error: str | None
    has_ipv6: bool
    """Whether a socket of IPv6 can be bound to this machine's own address."""


@dataclass(frozen=True, slots=True)
class PortFacts:
    """A port of this machine; `holder` is the process that listens there, as far as it is known."""

    port: int
    is_taken: bool
    holder: str | None


def _clocks() -> float:
    return time.time() - time.monotonic()


_OFFSET_S: Final = _clocks()


def machine_facts() -> MachineFacts:
    """Return the figures of now."""
    return MachineFacts(
        open_files=_open_files_limits(),
        mappings_max=_number(_read("/proc/sys/vm/max_map_count")),
        memory=_memory(),
        cpus=os.cpu_count() or 1,
        usable_cores=usable_cores(),
    )


def clock_facts() -> ClockFacts:
    """Return what is known of the clock."""
    return ClockFacts(
        now_s=time.time(),
        installed_s=os.stat(__file__).st_mtime,
        jump_s=_clocks() - _OFFSET_S,
        is_synchronised=_is_synchronised(),
    )


def name_facts(name: str) -> NameFacts:
    """Ask for the addresses of a host name."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return NameFacts(name, (), why, _has_ipv6())
    addresses = tuple(dict.fromkeys(str(each[4][0]) for each in found))
    return NameFacts(name, addresses, None, _has_ipv6())


def port_facts(port: int) -> PortFacts:
    """Return whether something listens at a port of `localhost`, and which process does."""
    is_taken = is_port_taken("localhost", port)
    holder = port_holder(port) if is_taken else None
    return PortFacts(port, is_taken, None if holder is None else str(holder))


def import_failures(modules: Sequence[str], within_s: float) -> Mapping[str, str]:
    """Import these modules in a process of its own, and return the errors by module: a library of
    another machine ends its process instead of raising."""
    if not modules:
        return {}
    # -P: a file of the current directory is no library.
    words = [sys.executable, "-P", "-W", "ignore", "-c", _IMPORTS, *modules]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=within_s, check=False
        )
        text, end = done.stdout, f"its import ends the process with code {done.returncode}"
    except subprocess.TimeoutExpired as late:
        text, end = late.stdout or b"", f"its import has not ended in {within_s:g} s"
    begun, ended = "", {}
    for line in text.decode("utf-8", "replace").splitlines():
        with suppress(ValueError):
            name, *outcome = json.loads(line)
            if outcome:
                ended[name] = outcome[0]
            else:
                begun = name
    failures = {name: error for name, error in ended.items() if error is not None}
    return failures | ({begun: end} if begun and begun not in ended else {})


class Pending(Generic[T]):
    """A call in a thread of its own, which is not waited for at the end of the process."""

    def __init__(self, call: Callable[[], T]) -> None:
        """Begin the call."""
        self._call = call
        self._found: list[T] = []
        self._error: MoldauError | OSError | None = None
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="moldau-pending", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._call())
        except (MoldauError, OSError) as error:
            self._error = without_frames(error)

    def result(self, within_s: float) -> T | None:
        """Return the result, or raise the call's MoldauError or OSError; None if it takes longer
        than this since it began."""
        self._thread.join(max(0.0, self._begun + within_s - time.monotonic()))
        if self._error is not None:
            raise without_frames(self._error)
        return self._found[0] if self._found else None


def _open_files_limits() -> OpenFilesLimits | None:
    try:
        import resource
    except ImportError:
        return None
    pair = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (None if each == resource.RLIM_INFINITY else each for each in pair)
    return OpenFilesLimits(soft, hard)


def _memory() -> MemoryFacts | None:
    lines = (line.partition(":") for line in _read("/proc/meminfo").splitlines())
    found = {name: (_number(value.split()[0]) or 0) * _KIB for name, _, value in lines if value}
    if "MemTotal" not in found:
        return None
    total = found["MemTotal"]
    available = found.get("MemAvailable", found.get("MemFree", total))
    limit = memory_limit()
    return MemoryFacts(
        total_bytes=total,
        available_bytes=available if limit is None else min(available, limit),
        swap_bytes=found.get("SwapTotal", 0),
        swap_free_bytes=found.get("SwapFree", 0),
        limit_bytes=limit if limit is not None and limit < total else None,
    )


def _is_synchronised() -> bool | None:
    """Ask Linux's own clock, as timedatectl does."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (AttributeError, OSError, TypeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONISED


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""
