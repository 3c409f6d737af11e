"""The directory that a sink of files writes, and the one connector that owns it.

Spark leaves out a batch if its log of the directory, `_spark_metadata`, has the number. So two
queries that write into one directory would lose rows of each other. The owner is noted by a file in
the directory, `_moldau_connector-<connector>`. Spark reads no file whose name begins with `_`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from moldau.connectors.spark.checkpoint.address import local_path, read_batch_numbers
from moldau.connectors.spark.checkpoint.generations import Generations
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

SPARK_LOG: Final = "_spark_metadata"
_OWNER: Final = "_moldau_connector-"
"""The begin of the owner file's name. The name of the connector follows, quoted as in a URL."""


class SinkDirectory:
    """The directory `sink.path` of one connector. A URI has no owner: only Spark can read it."""

    def __init__(self, path: str, connector: str) -> None:
        self._given = path
        self._owner_file = f"{_OWNER}{quote(connector, safe='')}"

    def claim(self, generations: Generations) -> None:
        """Make the connector the owner. Do nothing for a URI.

        ConfigError if another connector is the owner, or if the directory has batches of another
        query whose numbers the query of these `generations` has yet to write.
        """
        folder = local_path(self._given)
        if folder is None:
            return
        owner = folder / self._owner_file
        is_new = not owner.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            owner.touch()
            others = [each for each in folder.glob(f"{_OWNER}*") if each != owner]
            if others and is_new:
                owner.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(
                f"sink.path cannot be written: {error.strerror}; check the path and its "
                "permissions",
                path=self._given,
            ) from error
        if others:
            raise ConfigError(
                "another connector writes into this sink.path: give each connector a directory of "
                f"its own, or remove {others[0].name} there if that connector is gone for good",
                path=self._given,
                connector=unquote(others[0].name.removeprefix(_OWNER)),
            )
        if is_new and _would_leave_out_batches(folder, generations):
            owner.unlink(missing_ok=True)
            raise ConfigError(
                "this sink.path has batches of another query, and Spark would leave out those of "
                "this query with the same numbers: choose another directory; or, if this connector "
                f"has written them, create a file {owner.name} there",
                path=self._given,
            )

    def release(self) -> None:
        """Leave the directory without an owner. Its rows and Spark's log of them stay."""
        folder = local_path(self._given)
        if folder is not None:
            (folder / self._owner_file).unlink(missing_ok=True)


def _would_leave_out_batches(folder: Path, generations: Generations) -> bool:
    """Whether Spark's log of the directory may have a batch that this query has yet to write.

    False for a fresh generation, which takes other numbers. If the checkpoint is at a URI, its
    batches are unknown and count as none.
    """
    in_directory = read_batch_numbers(str(folder / SPARK_LOG)) or []
    generation = generations.current()
    if not in_directory or generations.is_fresh(generation):
        return False
    committed = read_batch_numbers(f"{generations.path(generation)}/rows/commits") or []
    return max(in_directory) > max(committed, default=-1)
