"""`moldau sizing`: the nodes, shards, memory, disk and network that a load needs.

    moldau sizing --in 50 --out 100 --retention 7d

It asks no cluster. The numbers behind it are those of the benches: docs/sizing.md.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from moldau.cli.command import Context, Exit
from moldau.cli.numbers import decimal, period, whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.operations.sizing import CODECS, MEASURED, Estimate, Load, estimate

_RATE: Final = decimal(0, 1_000_000)
_OPTIONS: Final[tuple[tuple[str, Callable[[str], float], float | None, str, str], ...]] = (
    ("--out", _RATE, None, "MB/S", "MB/s that all groups together consume; default: as --in"),
    ("--record-size", whole(1, 1 << 30), 1_000, "BYTES", "the size of a value; default: 1000"),
    ("--retention", period, period("7d"), "7d", "how long records are kept; default: 7d"),
    ("--replicas", whole(1, 100), 3, "N", "the replication factor; default: 3"),
    ("--partitions", whole(1, 10_000_000), 100, "N", "of all topics, without copies; default: 100"),
    ("--compressed-to", decimal(0.001, 1), 1.0, "PART", "what compression leaves, such as 0.3"),
    ("--connections", whole(0, 10_000_000), 100, "N", "clients at the same time; default: 100"),
    ("--cores", whole(2, 1024), 4, "N", "the cores of a node; default: 4"),
)
"""Name, type, default, what stands for the value, help."""


class SizingCommand:
    """Calculates the cluster for a load, from what the benches measured."""

    summary = SUMMARIES["sizing"]

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument(
            "--in",
            dest="in_mb_s",
            type=_RATE,
            required=True,
            metavar="MB/S",
            help="values that are produced, in MB a second, before compression",
        )
        for name, given, default, metavar, told in _OPTIONS:
            parser.add_argument(name, type=given, default=default, metavar=metavar, help=told)
        parser.add_argument(
            "--codec", choices=CODECS, default="none", help="the compression of producers"
        )
        parser.add_argument("--tls", action="store_true", help="clients connect over TLS")
        parser.add_argument(
            "--measured",
            action="store_true",
            help="also show the measured numbers, and the tables that they are from",
        )
        parser.add_argument("--json", action="store_true", help="write JSON")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        found = estimate(_load(arguments))
        if arguments.json:
            document = asdict(found)
            if arguments.measured:
                document["measured"] = [asdict(row) for row in MEASURED]
            write_json(context.out, document)
            return Exit.DONE
        write_table(context.out, ("what", "size"), _rows(found))
        write_lines(context.out, [f"note: {each}" for each in found.notes])
        if arguments.measured:
            rows = [
                (row.name, f"{row.value:g} {row.unit}", row.page, row.table) for row in MEASURED
            ]
            write_table(context.out, ("measured", "value", "page", "table"), rows)
        return Exit.DONE


def _load(arguments: Namespace) -> Load:
    out_mb_s = arguments.in_mb_s if arguments.out is None else arguments.out
    return Load(
        arguments.in_mb_s,
        out_mb_s,
        record_bytes=arguments.record_size,
        retention_s=arguments.retention / 1_000,
        replicas=arguments.replicas,
        partitions=arguments.partitions,
        codec=arguments.codec,
        compressed_to=arguments.compressed_to,
        connections=arguments.connections,
        has_tls=arguments.tls,
        cores=arguments.cores,
    )


def _rows(found: Estimate) -> list[tuple[str, str]]:
    return [
        ("nodes", str(found.nodes)),
        ("shards a node", str(found.shards)),
        ("cores that are busy, all nodes", f"{found.cores_busy:.1f}"),
        ("memory of a node's brokers", f"{found.memory_mb:,.0f} MB"),
        ("memory of a node", f"{found.machine_memory_mb:,.0f} MB"),
        ("disk of a node", f"{found.disk_gb:,.0f} GB"),
        ("network into a node", f"{found.network_in_mb_s:,.1f} MB/s"),
        ("network out of a node", f"{found.network_out_mb_s:,.1f} MB/s"),
        ("nodes that may fail", str(found.may_fail)),
    ]


command = SizingCommand()
