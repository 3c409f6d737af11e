"""Generations of checkpoints: a query that begins at other offsets needs a new checkpoint.

    <folder>/generation.json     {"generation": 2, "starting": {...}, "token": "..."}
    <folder>/gen-2/rows/         the checkpoint that Spark writes
    <folder>/gen-2/columns       the columns that `value.schema=infer` found

Spark's checkpoints cannot be edited. So altered offsets begin a new generation, whose checkpoint
starts empty at these offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from typing import Final

from moldau.connectors.spark.checkpoint.address import CheckpointAddress, read_batch_numbers
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.runtime.real import RealRuntime
from moldau.runtime.real_files import RealFiles
from moldau.spark.ranges import Checkpoint

_STATE: Final = "generation.json"
_COLUMNS: Final = "columns"
_ROWS: Final = "rows"
_NO_OFFSET: Final = "-"
"""Spark writes this for a source that has no offset in a batch."""


@dataclass(frozen=True)
class Generation:
    """The number of a checkpoint, and the offsets at which it begins while it is empty."""

    number: int = 0
    starting: Checkpoint = field(default_factory=dict)
    token: str = field(default="", compare=False)
    """Random text. It distinguishes this generation from one with the same number in a folder that
    was removed and made again."""


class Generations:
    """The generations of one folder of checkpoints. One of them is current."""

    def __init__(self, address: CheckpointAddress) -> None:
        self._address = address

    def current(self) -> Generation:
        """Return the generation in use. It is the first one unless offsets were altered."""
        state = self._address.path / _STATE
        if not self._address.is_local or not state.exists():
            return Generation()
        found = json.loads(state.read_text(encoding="utf-8"))
        return Generation(found["generation"], found["starting"], found.get("token", ""))

    def begin(self, starting: Mapping[str, Mapping[str, int]]) -> Generation:
        """Make the next generation the current one, and return it.

        `starting` has the offsets by topic and partition. With {} the setting `starting.offsets`
        decides. ConfigError for a URI, where the current generation cannot be stored.
        """
        address = self._address
        if not address.is_local:
            raise ConfigError(
                "offsets of a checkpoint at a URI cannot be altered here: choose another "
                "checkpoint.location and starting.offsets",
                location=address.location,
            )
        token = RealRuntime().random.randbytes(4).hex()
        starts = {topic: dict(partitions) for topic, partitions in starting.items()}
        new = Generation(self.current().number + 1, starts, token)
        text = json.dumps({"generation": new.number, "starting": starts, "token": token})
        files = RealFiles()
        files.make_dirs(str(address.path))
        files.write_text_atomic(str(address.path / _STATE), text)
        return new

    def path(self, generation: Generation) -> str:
        """Return the address of the folder in which Spark keeps this generation."""
        return self._address.child(f"gen-{generation.number}")

    def query_name(self, generation: Generation) -> str:
        """Return the name under which the sink stores the batch numbers of this generation."""
        name = self._address.name
        if not generation.number:
            return name
        number = f"{generation.number}-{generation.token}".rstrip("-")
        return f"{name}-{number}" if self._address.topic is None else f"{name}:{number}"

    def committed_offsets(self) -> Checkpoint:
        """Return the offsets at which the current generation continues.

        These are its starting offsets if it has committed no batch, and always at a URI.
        """
        current = self.current()
        rows = f"{self.path(current)}/{_ROWS}"
        numbers = read_batch_numbers(f"{rows}/commits") if self._address.is_local else []
        if not numbers:
            return current.starting
        offsets = self._address.path / f"gen-{current.number}" / _ROWS / "offsets"
        lines = (offsets / str(max(numbers))).read_text(encoding="utf-8").splitlines()
        if lines[-1] == _NO_OFFSET:
            return current.starting
        found: Checkpoint = json.loads(lines[-1])
        return found

    def is_fresh(self, generation: Generation) -> bool:
        """Whether Spark has begun no batch of this generation. False for a URI, which only Spark
        can read."""
        offsets = f"{self.path(generation)}/{_ROWS}/offsets"
        return self._address.is_local and not read_batch_numbers(offsets)

    def number_after(self, generation: Generation, last_batch: int) -> None:
        """Make `last_batch + 1` the number of the first batch of a fresh generation.

        The offsets at which it begins stay the same: Spark asks a source for its initial offset if
        the log has none.
        """
        rows = self._address.path / f"gen-{generation.number}" / _ROWS
        digits = sha256(str(rows).encode()).hexdigest()
        identity = f"{digits[:8]}-{digits[8:12]}-5{digits[12:15]}-a{digits[15:18]}-{digits[18:30]}"
        about = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
        offsets = f"v1\n{json.dumps(about)}\n{_NO_OFFSET}"
        texts = {
            "metadata": json.dumps({"id": identity}),
            f"commits/{last_batch}": 'v1\n{"nextBatchWatermarkMs":0}',
            f"offsets/{last_batch}": offsets,
        }
        if last_batch > 0:
            texts[f"offsets/{last_batch - 1}"] = offsets  # Spark reads the one before the last too
        # One rename puts all files in place. Until then the generation is still fresh.
        draft = rows.with_name(f"{rows.name}.new")
        RealFiles().remove_tree(str(draft))
        for name, text in texts.items():
            file = draft / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        RealFiles().remove_tree(str(rows))
        draft.replace(rows)

    def inferred_columns(self) -> str | None:
        """Return the columns that were inferred for the current generation; None if there are none,
        and always at a URI."""
        if not self._address.is_local:
            return None
        columns = self._address.path / f"gen-{self.current().number}" / _COLUMNS
        try:
            return columns.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def store_inferred_columns(self, columns: str) -> None:
        """Store the columns of the current generation for the next start. Do nothing at a URI."""
        if self._address.is_local:
            file = self._address.path / f"gen-{self.current().number}" / _COLUMNS
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(columns, encoding="utf-8")
