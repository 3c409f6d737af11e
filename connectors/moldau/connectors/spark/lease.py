"""A lock that is a file at an address of fsspec: its owner writes it again and again.

No system call ends such a lock with its process. So a query that finds one looks at it for
`LEASE_S`: if it is written meanwhile its owner lives, and else it is taken over. An owner that
finds another's name in it has been taken for dead, and ends its query. The clocks of the machines
are never compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from moldau.connectors.file.storage import Storage
from moldau.errors import ConfigError

RENEW_S: Final = 3.0
LEASE_S: Final = 20.0
_LOOK_S: Final = 2.0


class Lease:
    """The lock of one owner. Not for two threads at once."""

    def __init__(
        self, storage: Storage, path: str, owner: str, wait: Callable[[float], object]
    ) -> None:
        self._storage = storage
        self._path = path
        self._owner = owner
        self._wait = wait
        self._beat = 0

    def take(self) -> None:
        """ConfigError if another owner lives. Takes `LEASE_S` if one has died, two seconds else."""
        seen = self._read()
        looks = int(LEASE_S / _LOOK_S)
        while seen is not None and looks:
            self._wait(_LOOK_S)
            now = self._read()
            if now not in (seen, None):
                raise self._taken()
            seen, looks = now, looks - 1
        self._write()
        # Two may have found it free: the last to write has it.
        self._wait(_LOOK_S)
        if not self._is_mine():
            raise self._taken()

    def renew(self) -> None:
        """Tells others that the owner lives; ConfigError if one of them has taken it over."""
        if not self._is_mine():
            raise ConfigError(
                "another query has taken this checkpoint over: its lock was not renewed in time",
                path=self._path,
            )
        self._write()

    def release(self) -> None:
        """Removes it if it is still this owner's."""
        if self._is_mine():
            self._storage.remove(self._path)

    def _is_mine(self) -> bool:
        found = self._read()
        return found is not None and found.get("owner") == self._owner

    def _read(self) -> dict[str, object] | None:
        try:
            with self._storage.read(self._path) as file:
                found = json.loads(file.read())
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self) -> None:
        self._beat += 1
        text = json.dumps({"owner": self._owner, "beat": self._beat})
        self._storage.write(self._path, text.encode())

    def _taken(self) -> ConfigError:
        return another_query(self._path)


def another_query(path: str) -> ConfigError:
    """What the second query on a checkpoint is told."""
    return ConfigError(
        "another query works on this checkpoint: stop it, or give each connector a name or "
        "checkpoint.location of its own",
        path=path,
    )
