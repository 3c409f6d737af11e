"""The work of an app of `bench.stream_apps`, by hand: the ceiling for more than one worker.

    python -m bench.stream_bare scoring HOST:PORT IN OUT PARTITION...

A process with our client and a plain loop: no group, no store, no changelog, no commit. Two such
processes with a partition each share nothing but the machine and the broker, so the gain from the
second one is the most that a second worker can give.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from bench.stream_apps import Order, is_outlier, scored
from moldau.client import TopicPartition
from moldau.client.sync import Consumer, Producer

# work(keys, values): the keys and values that come out.
Out = tuple[list[bytes], list[bytes]]
Work = Callable[[Sequence[bytes], Sequence[bytes]], Out]

_decode = msgspec.json.Decoder(Order).decode
_encode = msgspec.json.Encoder().encode
COMMIT_S = 1.0


def scoring() -> Work:
    """Return the work of `bench.stream_apps.scoring`."""

    def work(keys: Sequence[bytes], values: Sequence[bytes]) -> Out:
        out: Out = ([], [])
        for key, value in zip(keys, values, strict=True):
            found = scored(_decode(value))
            if is_outlier(found):
                out[0].append(key)
                out[1].append(_encode(found))
        return out

    return work


def counting() -> Work:
    """Return the work of `bench.stream_apps.count`: changed counts come out once a second."""
    counts: dict[str, int] = {}
    changed: dict[str, None] = {}
    due = time.monotonic() + COMMIT_S

    def work(keys: Sequence[bytes], values: Sequence[bytes]) -> Out:
        nonlocal due
        for key, value in zip(keys, values, strict=True):
            _decode(value)
            name = key.decode()
            counts[name] = counts.get(name, 0) + 1
            changed[name] = None
        if time.monotonic() < due:
            return [], []
        due = time.monotonic() + COMMIT_S
        names = list(changed)
        changed.clear()
        return [name.encode() for name in names], [b"%d" % counts[name] for name in names]

    return work


KINDS: dict[str, Callable[[], Work]] = {"scoring": scoring, "count": counting}


def run(kind: str, bootstrap: str, topics: tuple[str, str], partitions: Sequence[int]) -> None:
    """Do the work until the process is killed."""
    source, out = topics
    work = KINDS[kind]()
    with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition(source, each) for each in partitions])
        while True:
            given = [(each.keys(), each.values()) for each in consumer.poll(0.05, max_records=5000)]
            # Also when nothing has come, what is due must come out.
            for part in given or [([], [])]:
                keys, values = work(*part)
                if keys:
                    producer.send_many(out, values, keys=keys)


if __name__ == "__main__":
    chosen, where, read, written, *numbers = sys.argv[1:]
    run(chosen, where, (read, written), [int(each) for each in numbers])
