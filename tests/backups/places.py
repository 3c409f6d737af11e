"""Backups and restores of tests, in a folder or at the address of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moldau.backups.backup_store import BackupStore, open_store
from moldau.backups.restoring import RestoreResult, restore_backup
from moldau.backups.taking import TakenBackup, take_backup
from moldau.client import Admin
from moldau.protocol.messages.restore_records import RestoreRecordsRequest
from moldau.runtime.real import RealRuntime


async def backed_up(address: str, place: Path | str) -> TakenBackup:
    """Take a backup of a cluster."""
    runtime = RealRuntime("backup")
    store = BackupStore(open_store(runtime, _address(place)))
    async with Admin(bootstrap_servers=address) as admin:
        return await take_backup(admin, store, runtime)


class Died(Exception):
    """A restore that ended between two of its requests."""


async def restored(
    address: str, place: Path | str, time_ms: int | None = None, *, appends_max: int | None = None
) -> RestoreResult:
    """Restore the newest backup, or the cluster as of a time. With `appends_max`, die behind so
    many requests that append, whose answers are lost."""
    store = BackupStore(open_store(RealRuntime("restore"), _address(place)))
    async with Admin(bootstrap_servers=address) as admin:
        if appends_max is not None:
            _let_die(admin, appends_max)
        return await restore_backup(admin, store, time_ms)


def _address(place: Path | str) -> str:
    return place if isinstance(place, str) else f"file://{place}"


def _let_die(admin: Admin, appends_max: int) -> None:
    call, appends = admin._cluster.call, 0

    async def counted(request: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal appends
        answer = await call(request, *arguments, **options)
        appends += isinstance(request, RestoreRecordsRequest) and request.records is not None
        if appends >= appends_max:
            raise Died
        return answer

    admin._cluster.call = counted  # type: ignore[method-assign]
