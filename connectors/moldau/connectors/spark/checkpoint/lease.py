"""A lock that is a file at an address of fsspec. Its owner renews it: writes it every few seconds.

No system call ends such a lock with its process. So a query that finds the file reads it for
`LEASE_S`. If the file changes meanwhile, its owner lives; otherwise the query takes the lock over.
An owner that finds the name of another owner in the file was taken for dead, and ends its query.
The clocks of the machines are never compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from moldau.connectors.file.storage import Storage
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

RENEW_S: Final = 3.0
LEASE_S: Final = 20.0
_POLL_S: Final = 2.0


class Lease:
    """The lock file, for one owner. Do not use it from two threads at once."""

    def __init__(
        self, storage: Storage, path: str, owner: str, wait: Callable[[float], object]
    ) -> None:
        self._storage = storage
        self._path = path
        self._owner = owner
        self._wait = wait
        self._beat = 0

    def acquire(self) -> None:
        """Acquire the lock. ConfigError if another owner lives.

        This takes two seconds, or `LEASE_S` if the last owner died.
        """
        seen = self._read()
        polls_left = int(LEASE_S / _POLL_S)
        while seen is not None and polls_left:
            self._wait(_POLL_S)
            now = self._read()
            if now not in (seen, None):
                raise checkpoint_in_use(self._path)
            seen, polls_left = now, polls_left - 1
        self._write()
        # Two owners may have found the lock free: the last one to write has it.
        self._wait(_POLL_S)
        if not self._is_held():
            raise checkpoint_in_use(self._path)

    def renew(self) -> None:
        """Write the file again, to show that the owner lives. ConfigError if another owner has
        taken the lock over."""
        if not self._is_held():
            raise Unavailable(
                "another query has taken this checkpoint over: its lock was not renewed in time",
                path=self._path,
            )
        self._write()

    def release(self) -> None:
        """Remove the file if it still belongs to this owner."""
        if self._is_held():
            self._storage.remove(self._path)

    def _is_held(self) -> bool:
        found = self._read()
        return found is not None and found.get("owner") == self._owner

    def _read(self) -> dict[str, object] | None:
        """Return the contents of the file: None without a file, {} if it was written by half."""
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


def checkpoint_in_use(path: str) -> ConfigError:
    """Return the error for a second query on a checkpoint."""
    return Unavailable(
        "another query works on this checkpoint: stop it, or give each connector a name or "
        "checkpoint.location of its own",
        path=path,
    )
