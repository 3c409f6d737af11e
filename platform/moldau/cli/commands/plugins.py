"""`moldau plugins`: what is installed, by layer and by group."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from moldau.cli.command import Context, Exit
from moldau.cli.output import write_json, write_table
from moldau.plugins import GROUPS, Layer, Plugin, PluginError, Plugins, installed_layers


class PluginsCommand:
    """Lists layers, plugins and conflicts; `--check` also imports every plugin."""

    summary = "What is installed: layers, plugins, and what is wrong with them."

    def configure(self, parser: ArgumentParser, /) -> None:
        parser.add_argument("--json", action="store_true", help="write JSON")
        parser.add_argument("--group", metavar="GROUP", help="only this group of plugins")
        parser.add_argument(
            "--check", action="store_true", help="import every plugin; exit code 1 if one fails"
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        plugins = context.plugins
        groups = _chosen(arguments.group, plugins)
        listed = [plugin for group in groups for plugin in plugins.named(group).values()]
        errors = _errors(listed) if arguments.check else {}
        layers = installed_layers()
        if arguments.json:
            write_json(context.out, _document(layers, listed, plugins, errors))
        else:
            _write_tables(context, layers, listed, errors)
        for warning in _warnings(layers, plugins):
            context.err.write(f"moldau: {warning}\n")
        is_fine = not (errors or plugins.conflicts or plugins.unreadable)
        return Exit.DONE if is_fine else Exit.FAILED


def _chosen(group: str | None, plugins: Plugins) -> tuple[str, ...]:
    groups = plugins.groups()
    if group is None:
        return groups
    full = group if group.startswith("moldau.") else f"moldau.{group}"
    if full not in groups:
        raise PluginError("no such group", group=group, groups=", ".join(groups))
    return (full,)


def _errors(plugins: list[Plugin]) -> Mapping[tuple[str, str], str]:
    errors = {}
    for plugin in plugins:
        try:
            plugin.load()
        except PluginError as error:
            errors[plugin.group, plugin.name] = str(error.context["error"])
    return errors


def _warnings(layers: tuple[Layer, ...], plugins: Plugins) -> list[str]:
    warnings = [str(problem) for problem in (*plugins.conflicts, *plugins.unreadable)]
    versions = {layer.version for layer in layers if layer.version is not None}
    if len(versions) > 1:
        warnings.append("layers of different versions are installed; install one of all")
    return warnings


def _write_tables(
    context: Context,
    layers: tuple[Layer, ...],
    plugins: list[Plugin],
    errors: Mapping[tuple[str, str], str],
) -> None:
    rows = [(layer.name, layer.version or "not installed", layer.contents) for layer in layers]
    write_table(context.out, ("layer", "version", "what it brings"), rows)
    context.out.write("\n")
    listed = [
        (
            plugin.group.removeprefix("moldau."),
            plugin.name,
            f"{plugin.distribution} {plugin.version}",
            errors.get((plugin.group, plugin.name), plugin.target),
        )
        for plugin in plugins
    ]
    write_table(context.out, ("group", "plugin", "from", "target"), listed)


def _document(
    layers: tuple[Layer, ...],
    listed: list[Plugin],
    plugins: Plugins,
    errors: Mapping[tuple[str, str], str],
) -> dict[str, object]:
    return {
        "layers": [
            {"layer": layer.name, "distribution": layer.distribution, "version": layer.version}
            for layer in layers
        ],
        "groups": {group: GROUPS.get(group, "") for group in plugins.groups()},
        "plugins": [
            {
                "group": plugin.group,
                "name": plugin.name,
                "target": plugin.target,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "error": errors.get((plugin.group, plugin.name)),
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
