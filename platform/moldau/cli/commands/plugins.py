"""`moldau plugins`: the installed layers and plugins, by group, and their faults."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from moldau.cli.command import Context, Exit
from moldau.cli.output import write_json, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.plugins import Contracts, Layer, Plugin, PluginError, Plugins, installed_layers
from moldau.plugins.contracts import LAYERS

Faults = Mapping[tuple[str, str], str]
"""The fault of each faulty plugin, by group and name."""


class PluginsCommand:
    """Lists layers, plugins and conflicts; `--check` also tests every plugin."""

    summary = SUMMARIES["plugins"]

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument("--json", action="store_true", help="write JSON")
        parser.add_argument("--group", metavar="GROUP", help="only this group of plugins")
        parser.add_argument(
            "--check",
            action="store_true",
            help="load every plugin and test what its group demands; exit code 1 if one fails",
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        plugins = context.plugins
        contracts = Contracts(plugins)
        groups = _chosen(arguments.group, contracts.groups(plugins))
        listed = [plugin for group in groups for plugin in plugins.named(group).values()]
        faults = _faults(listed, contracts) if arguments.check else {}
        layers = installed_layers(added=plugins.named(LAYERS).values())
        if arguments.json:
            write_json(context.out, _document(layers, listed, plugins, contracts, faults))
        else:
            _write_tables(context, layers, listed, faults)
        told = {(each.group, each.name): each for each in listed}
        for key, fault in faults.items():
            plugin = told[key]
            context.err.write(
                f"moldau: {plugin.name} in {plugin.group} ({plugin.distribution} "
                f"{plugin.version}, {plugin.target}): {fault}\n"
            )
        problems = [str(each) for each in (*plugins.conflicts, *plugins.unreadable)]
        problems += contracts.faults
        for problem in (*problems, *_warnings(layers)):
            context.err.write(f"moldau: {problem}\n")
        return Exit.FAILED if faults or problems else Exit.DONE


def _chosen(group: str | None, groups: tuple[str, ...]) -> tuple[str, ...]:
    if group is None:
        return groups
    full = group if group.startswith("moldau.") else f"moldau.{group}"
    if full not in groups:
        raise PluginError("no such group", group=group, groups=", ".join(groups))
    return (full,)


def _faults(plugins: list[Plugin], contracts: Contracts) -> Faults:
    found = {(each.group, each.name): contracts.fault(each) for each in plugins}
    return {key: fault for key, fault in found.items() if fault is not None}


def _warnings(layers: tuple[Layer, ...]) -> list[str]:
    """Return a warning if moldau's own layers have different versions."""
    versions = {
        each.version
        for each in layers
        if each.version is not None and each.distribution == f"moldau-{each.name}"
    }
    if len(versions) > 1:
        return ["layers of different versions are installed; install one of all"]
    return []


def _write_tables(
    context: Context, layers: tuple[Layer, ...], plugins: list[Plugin], faults: Faults
) -> None:
    rows = [(layer.name, layer.version or "not installed", layer.contents) for layer in layers]
    write_table(context.out, ("layer", "version", "what it brings"), rows)
    context.out.write("\n")
    listed = [
        (
            plugin.group.removeprefix("moldau."),
            plugin.name,
            f"{plugin.distribution} {plugin.version}",
            faults.get((plugin.group, plugin.name), plugin.target),
        )
        for plugin in plugins
    ]
    write_table(context.out, ("group", "plugin", "from", "target"), listed)


def _document(
    layers: tuple[Layer, ...],
    listed: list[Plugin],
    plugins: Plugins,
    contracts: Contracts,
    faults: Faults,
) -> dict[str, object]:
    known = {each.group: each.contents for each in contracts.by_group.values()}
    return {
        "layers": [
            {"layer": layer.name, "distribution": layer.distribution, "version": layer.version}
            for layer in layers
        ],
        "groups": {group: known.get(group, "") for group in contracts.groups(plugins)},
        "plugins": [
            {
                "group": plugin.group,
                "name": plugin.name,
                "target": plugin.target,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "error": faults.get((plugin.group, plugin.name)),
            }
            for plugin in listed
        ],
        "conflicts": [
            {
                "group": conflict.group,
                "name": conflict.name,
                "claims": [f"{claim.distribution}: {claim.target}" for claim in conflict.claims],
            }
            for conflict in plugins.conflicts
        ],
    }


command = PluginsCommand()
