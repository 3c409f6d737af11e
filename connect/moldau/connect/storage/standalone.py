"""What a standalone worker keeps for exactly-once sources: offsets in a topic, counts in a file.

Offsets have to be in the transactions of the records, so they move from the file of the state
directory to a topic of this worker's own, once, and stay there also if the worker is set to
at-least-once later: `offsets-topic` in the state directory names the topic. The task-count records,
which say how many producers have to be fenced, are in a file, as there is no config topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.connect.storage.file import FileLog, entries_of
from moldau.connect.storage.keys import Key
from moldau.connect.storage.log import Entry, KeyedLog, MemoryLog, OnRecord
from moldau.runtime import Runtime

OFFSETS_FILE: Final = "offsets.json"
MOVED_FILE: Final = "offsets.moved.json"
TOPIC_FILE: Final = "offsets-topic"
COUNTS_FILE: Final = "task-counts.json"
TOPIC_SETTING: Final = "offset.storage.topic"


def offsets_topic(
    runtime: Runtime, state: str, settings: Mapping[str, str], *, is_exactly_once: bool
) -> str | None:
    """Return the topic of this worker's offsets, and note it in the state directory. None: the
    offsets are in a file."""
    files, path = runtime.files, f"{state}/{TOPIC_FILE}"
    noted = files.read_text(path).strip() if files.exists(path) else None
    if not is_exactly_once:
        return noted
    topic = settings.get(TOPIC_SETTING) or noted or f"connect-offsets-{settings['group.id']}"
    if topic != noted:
        files.write_text_atomic(path, f"{topic}\n")
    return topic


class MovedOffsets(KeyedLog):
    """The log in the topic. At the first start it takes over the offsets of the file."""

    def __init__(self, runtime: Runtime, state: str, topic: KeyedLog) -> None:
        self._files = runtime.files
        self._old, self._moved = f"{state}/{OFFSETS_FILE}", f"{state}/{MOVED_FILE}"
        self._topic = topic

    async def start(self, on_record: OnRecord) -> None:
        known: set[bytes] = set()

        def note(key: bytes, value: bytes | None) -> None:
            known.add(key)
            on_record(key, value)

        await self._topic.start(note)
        if self._files.exists(self._old):
            old = entries_of(self._old, self._files.read_text(self._old))
            await self._topic.append([each for each in old if each[0] not in known])
            self._files.rename(self._old, self._moved)

    async def append(self, entries: Sequence[Entry]) -> None:
        await self._topic.append(entries)

    async def read_to_end(self) -> None:
        await self._topic.read_to_end()

    async def aclose(self) -> None:
        await self._topic.aclose()


class CountedConfigs(MemoryLog):
    """Configs in memory, and task-count records in a file."""

    def __init__(self, runtime: Runtime, state: str) -> None:
        super().__init__()
        self._counts = FileLog(runtime, f"{state}/{COUNTS_FILE}")

    async def start(self, on_record: OnRecord) -> None:
        await super().start(on_record)
        await self._counts.start(on_record)

    async def append(self, entries: Sequence[Entry]) -> None:
        prefix = Key.TASK_COUNT.value.encode()
        counts = [each for each in entries if each[0].startswith(prefix)]
        await super().append([each for each in entries if each not in counts])
        if counts:
            await self._counts.append(counts)
