"""`moldau version`: the versions of moldau, Python and the record kernel."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from moldau.cli.command import Context, Exit
from moldau.cli.output import write_json, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.plugins import installed_layers


class VersionCommand:
    """Prints the versions of moldau's layers and of Python, and which record kernel is used."""

    summary = SUMMARIES["version"]

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument("--json", action="store_true", help="write JSON")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.records import KERNEL, tell_kernel

        versions = {layer.distribution: layer.version for layer in installed_layers()}
        versions["python"] = ".".join(map(str, sys.version_info[:3]))
        versions["record-kernel"] = KERNEL
        if arguments.json:
            write_json(context.out, versions)
        else:
            rows = [(name, version or "not installed") for name, version in versions.items()]
            write_table(context.out, ("what", "version"), rows)
            tell_kernel(lambda notice: context.err.write(f"{notice}\n"))
        return Exit.DONE


command = VersionCommand()
