"""Puts one file into an S3 store again and again at a pace, by obstore alone, until it is stopped:
the least that copies at this pace cost.

    python -m bench.paced_puts ENDPOINT FILE BYTES_PER_S

It runs as a process of its own, as a broker does, with its credentials in the environment. As many
puts are in flight as a broker has with the partitions of `tiered_nodes`, with parts of its size.
"""

from __future__ import annotations

import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Final

import obstore
from obstore.store import S3Store

from moldau.objects.obstore_bucket import PART_BYTES, PARTS_IN_FLIGHT
from tests.broker.tiered.s3_servers import BUCKET, REGION

THREADS: Final = 4


def bucket(endpoint: str) -> S3Store:
    """Return the bucket of a server on this machine."""
    return S3Store(
        BUCKET,
        endpoint=endpoint,
        region=REGION,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def put(store: S3Store, name: str, path: Path) -> None:
    """Put a file in parts."""
    obstore.put(
        store,
        name,
        path,
        use_multipart=True,
        chunk_size=PART_BYTES,
        max_concurrency=PARTS_IN_FLIGHT,
    )


def _put_for_ever(store: S3Store, folder: int, path: Path, pause_s: float) -> None:
    begun = time.monotonic()
    for number in count():
        time.sleep(max(0.0, begun + number * pause_s - time.monotonic()))
        put(store, f"{folder}/{number}", path)


def main() -> None:
    endpoint, path, bytes_per_s = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    store, pause_s = bucket(endpoint), THREADS * path.stat().st_size / bytes_per_s
    threads = [
        threading.Thread(target=_put_for_ever, args=(store, number, path, pause_s))
        for number in range(THREADS)
    ]
    for each in threads:
        each.start()


if __name__ == "__main__":
    main()
