"""Says which process has a port or a directory that a node needs, and which option gives another.

Ports are tried before anything starts: a broker that finds out later has already begun its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from moldau.errors import ConfigError, MoldauError

if TYPE_CHECKING:
    from moldau.config import Settings

IN_USE: Final = "another process uses the directory"


def check_directories(settings: Settings) -> None:
    """Raise ConfigError if another process uses a directory of the node."""
    from moldau.broker.log.names import LOCK
    from moldau.broker.server.storage import places_of
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    for path in places_of(settings).all:
        lock = f"{path}/{LOCK}"
        if files.exists(lock):
            try:
                files.lock(lock).release()
            except BlockingIOError:
                raise ConfigError(IN_USE, directory=path) from None
            except OSError:
                continue  # the start says what is wrong with the directory


def check_ports(settings: Settings, *, has_file: bool) -> None:
    """Raise MoldauError if another process listens at a port of the node."""
    from moldau.broker.settings import read_listeners
    from moldau.link.addresses import Address
    from moldau.runtime.holders import port_in_use

    for each in read_listeners(settings).bound:
        option = "another in listeners" if has_file else f"another, as --listen {each.port + 1}"
        problem = port_in_use(each.host, each.port, option)
        if problem is not None:
            address = str(Address(each.host, each.port))
            raise MoldauError(problem, listener=each.name, address=address)


@contextmanager
def naming_holder(*, has_file: bool) -> Iterator[None]:
    """Name the process that uses a directory, in the error of the block."""
    from moldau.broker.log.names import LOCK
    from moldau.runtime.holders import lock_holder

    try:
        yield
    except ConfigError as error:
        directory = error.context.get("directory")
        if error.reason != IN_USE or not isinstance(directory, str):
            raise
        holder = lock_holder(f"{directory}/{LOCK}")
        by = "" if holder is None else f": {holder}"
        option = "another log.dirs" if has_file else "another with --data (and --listen)"
        raise ConfigError(
            f"{IN_USE}{by}: stop it, or give {option}", directory=directory
        ) from error
