"""The metadata of scripted brokers, as an admin's client reads it."""

from __future__ import annotations

from moldau.client.base.given import resolve
from moldau.client.settings import rows
from moldau.link.cluster import Cluster
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP


def cluster(runtime: Runtime, **options: object) -> Cluster:
    given = {"bootstrap_servers": BOOTSTRAP, **options}
    return Cluster(runtime, resolve(rows.ADMIN_SETTINGS, {}, given))
