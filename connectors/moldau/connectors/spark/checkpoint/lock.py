"""The lock of a checkpoint: one process at a time works on it.

On this machine the lock is an open file, and it ends with the process. At a URI it is a lease, a
file that its owner renews (`lease`), if fsspec can open the URI. Otherwise there is no lock.
"""

from __future__ import annotations

import fcntl
import logging
from typing import Any, Final

from moldau.connectors.file.storage import storage_of
from moldau.connectors.pace import Pace, Patrol
from moldau.connectors.spark.checkpoint.address import CheckpointAddress
from moldau.connectors.spark.checkpoint.lease import RENEW_S, Lease, checkpoint_in_use
from moldau.errors import ConfigError
from moldau.ids import format_uuid, new_uuid
from moldau.runtime.real import RealRuntime
from moldau.spark.reach import Unavailable

LOG: Final = logging.getLogger("moldau.connectors.spark")
LOCK: Final = "lock"


class CheckpointLock:
    """The lock of one folder of checkpoints, acquired or not."""

    def __init__(self, address: CheckpointAddress) -> None:
        self._address = address
        self._file: Any = None
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
        path = self._address.path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._file = (path / LOCK).open("a")
        except OSError as error:
            raise Unavailable(
                f"the checkpoint cannot be written: {error.strerror}; check checkpoint.location",
                path=str(path),
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise checkpoint_in_use(str(path)) from None

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
            self._lost = error
        except Exception as error:
            LOG.warning("the lock of the checkpoint is not renewed, trying again: %s", error)

    def check(self) -> None:
        """Raise ConfigError if another process has taken the lock over."""
        if self._lost is not None:
            raise self._lost

    def release(self) -> None:
        """Release the lock, so that another process can acquire it. Do nothing without the lock."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
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
