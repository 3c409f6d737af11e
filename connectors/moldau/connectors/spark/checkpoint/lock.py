"""The lock of a checkpoint: one process at a time works on it.

On this machine the lock is an open file, and it ends with the process. At a URI it is a lease, a
file that its owner renews, if fsspec can open the URI. Otherwise there is no lock.

No system call ends a lease with its process. So a query that finds the file reads it for `LEASE_S`.
If the file changes meanwhile, its owner lives; otherwise the query takes the lock over. An owner
that finds the name of another owner in the file was taken for dead, and ends its query. The clocks
of the machines are never compared.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from moldau.connectors.file.storage import Storage, storage_of
from moldau.connectors.pace import Pace, Patrol
from moldau.connectors.spark.checkpoint.address import CheckpointAddress
from moldau.errors import ConfigError, without_frames
from moldau.ids import format_uuid, new_uuid
from moldau.runtime.files import FileLock
from moldau.runtime.real import RealRuntime
from moldau.runtime.real_files import RealFiles
from moldau.spark.reach import Unavailable

LOG: Final = logging.getLogger("moldau.connectors.spark")
LOCK: Final = "lock"

RENEW_S: Final = 3.0
LEASE_S: Final = 20.0
_POLL_S: Final = 2.0


class CheckpointLock:
    """The lock of one folder of checkpoints, acquired or not."""

    def __init__(self, address: CheckpointAddress) -> None:
        self._address = address
        self._file: FileLock | None = None
        self._lease: Lease | None = None
        self._renewal: Patrol | None = None
        self._lost: ConfigError | None = None

    def acquire(self) -> None:
        """Acquire the lock. It is held until `release` or the end of the process.

        ConfigError if another process holds it.
        """
        if not self._address.is_local:
            self._acquire_lease()
            return
        path = str(self._address.path)
        in_use = partial(checkpoint_in_use, path)
        try:
            self._file = RealFiles().lock_directory(path, LOCK, in_use)
        except OSError as error:
            raise Unavailable(
                f"the checkpoint cannot be written: {error.strerror}; check checkpoint.location",
                path=path,
            ) from error

    def _acquire_lease(self) -> None:
        path = f"{self._address.uri}/{LOCK}"
        runtime, pace = RealRuntime(), Pace()
        owner = format_uuid(new_uuid(runtime.random))
        try:
            lease = Lease(storage_of(path), path, owner, pace.wait)
            lease.acquire()
        except ConfigError:
            raise
        except Exception as error:
            # Spark may have a login for the URI that fsspec does not have.
            LOG.warning(
                "the checkpoint has no lock, a second query on it would not be noticed: %s", error
            )
            return
        self._lease, self._renewal = lease, Patrol(self._renew_lease, RENEW_S, pace)
        self._renewal.start()

    def _renew_lease(self) -> None:
        lease = self._lease
        try:
            if lease is not None:
                lease.renew()
        except ConfigError as error:
            self._lost = without_frames(error)
        except Exception as error:
            LOG.warning("the lock of the checkpoint is not renewed, trying again: %s", error)

    def check(self) -> None:
        """Raise ConfigError if another process has taken the lock over."""
        if self._lost is not None:
            raise without_frames(self._lost)

    def release(self) -> None:
        """Release the lock, so that another process can acquire it. Do nothing without the lock."""
        file, self._file = self._file, None
        if file is not None:
            file.release()
        lease, self._lease = self._lease, None
        if lease is not None and self._renewal is not None:
            self._renewal.stop()
            try:
                lease.release()
            except Exception as error:
                LOG.warning(
                    "the lock of the checkpoint is not removed, the next query waits for it: %s",
                    error,
                )


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
