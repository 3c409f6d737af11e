"""`moldau backup`: store a cluster in a bucket or a folder.

moldau backup -b localhost:9092 s3://bucket/prefix
moldau backup -b localhost:9092 file:///var/backups/orders
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import add_connection_arguments, opened_admin
from moldau.cli.output import write_json, write_lines
from moldau.cli.summaries import SUMMARIES
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.backups.taking import TakenBackup

_MIB: Final = 1 << 20
PLACE_HELP: Final = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///path"


class BackupCommand:
    """Stores a cluster."""

    summary = SUMMARIES["backup"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser)
        parser.add_argument("place", metavar="ADDRESS", help=PLACE_HELP)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.backups.backup_store import BackupStore, open_store
        from moldau.backups.taking import take_backup

        with opened_admin(arguments, context) as admin:
            store = BackupStore(open_store(admin.runtime, arguments.place))
            taken = admin.run(lambda client: take_backup(client, store, admin.runtime))
        _report(arguments, context, taken)
        return Exit.DONE


def _report(arguments: Namespace, context: Context, taken: TakenBackup) -> None:
    manifest = taken.manifest
    size = sum(manifest.objects.values())
    if arguments.json:
        write_json(
            context.out,
            {
                "backup": taken.name,
                "topics": len(manifest.topics),
                "groups": len(manifest.groups),
                "bytes": size,
                "new_bytes": taken.new_bytes,
                "new_objects": taken.new_chunks,
                "copied_bytes": taken.copied_bytes,
                "copied_objects": taken.copied_chunks,
                "not_copied": taken.not_copied,
                "deleted_meanwhile": sorted(taken.gone),
            },
        )
        return
    lines = [
        f"backed up {counted(len(manifest.topics), 'topic')} and "
        f"{counted(len(manifest.groups), 'group')} as "
        f"{taken.name}",
        f"{size / _MIB:,.1f} MiB, of which {taken.new_bytes / _MIB:,.1f} MiB are new, in "
        f"{counted(taken.new_chunks, 'object')}",
    ]
    if taken.copied_chunks:
        lines.append(
            f"of remote segments, {taken.copied_bytes / _MIB:,.1f} MiB in {taken.copied_chunks} "
            "objects were copied inside the store"
        )
    if taken.not_copied:
        lines.append(
            f"remote segments were read through the brokers "
            f"({counted(len(taken.not_copied), 'time')}): "
            f"{taken.not_copied[0]}"
        )
    lines += [f"{name} was deleted meanwhile" for name in sorted(taken.gone)]
    write_lines(context.out, lines)


command = BackupCommand()
