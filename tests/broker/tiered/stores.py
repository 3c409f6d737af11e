"""Stores of the three kinds that tests use, and what runs a test on the real runtime."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from moldau.objects.object_store import ObjectStore, StoreLimits
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.real import run
from tests.broker.tiered.s3_servers import BUCKET, REGION

T = TypeVar("T")

QUICK: Final = StoreLimits(deadline_s=60, backoff=Backoff(1, 20))
"""For servers that answer: short waits between attempts, and patience with a busy machine."""
IMPATIENT: Final = StoreLimits(attempt_s=0.5, deadline_s=60, backoff=Backoff(1, 20))
"""For servers that do not answer some requests."""


def on_runtime(main: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on the real runtime until it returns."""
    return run(main, node="tiered-test")


def s3_store(
    runtime: Runtime,
    port: int,
    prefix: str,
    *,
    limits: StoreLimits = QUICK,
    bucket: str = BUCKET,
    region: str = REGION,
) -> ObjectStore:
    """A store on an S3 server of this machine."""
    address = parse_address(f"s3://{bucket}/{prefix}")
    config = StoreConfig(address, f"http://127.0.0.1:{port}", region, path_style=True)
    return ObjectStore(runtime, ObstoreBucket(runtime, config), limits)


def folder_store(runtime: Runtime, folder: object, limits: StoreLimits = QUICK) -> ObjectStore:
    """A store in a folder of this machine."""
    bucket = ObstoreBucket(runtime, StoreConfig(parse_address(f"file://{folder}")))
    return ObjectStore(runtime, bucket, limits)
