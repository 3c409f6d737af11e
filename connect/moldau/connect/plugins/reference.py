"""Makes the reference page of plugins and their settings from the models.

`python -m tests.connect.plugins.renew_reference` writes `docs/connect-reference.md`; a test checks
that the file is up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.connect.api.plugin import Plugin
from moldau.connect.config.connectors import SinkConfig, SourceConfig
from moldau.connect.config.model import ConfigKey
from moldau.connect.plugins.catalogue import Catalogue, InstalledPlugin, PluginKind

_TITLES = {
    PluginKind.CONNECTOR: "Connectors",
    PluginKind.CONVERTER: "Converters of keys and values",
    PluginKind.HEADER_CONVERTER: "Converters of headers",
    PluginKind.TRANSFORMATION: "Transforms",
    PluginKind.PREDICATE: "Predicates",
    PluginKind.CONFIG_PROVIDER: "Config providers",
}


def render(catalogue: Catalogue, distribution: str, kinds: Iterable[PluginKind]) -> str:
    """Return the page for the plugins of one distribution."""
    return "\n".join([*_pages(catalogue, distribution, kinds), ""])


def _pages(catalogue: Catalogue, distribution: str, kinds: Iterable[PluginKind]) -> Iterator[str]:
    yield "# Connect reference"
    yield ""
    yield "Made from the models of the plugins. A name can be written in full, as its last part, or"
    yield "without the ending that all plugins of its kind have: `org.apache.kafka.connect.json."
    yield "JsonConverter`, `JsonConverter`, `Json`."
    yield ""
    yield "## Settings of every connector"
    yield from _table("Source connectors", SourceConfig.settings())
    yield from _table("Sink connectors", SinkConfig.settings())
    for kind in kinds:
        yield ""
        yield f"## {_TITLES[kind]}"
        ours = [each for each in catalogue.all(kind) if each.distribution == distribution]
        for group in _grouped(ours):
            yield from _plugin(group)


def _grouped(plugins: Iterable[InstalledPlugin]) -> list[list[InstalledPlugin]]:
    """Group plugins so that a transform for keys and for values is one entry."""
    groups: dict[tuple[str, type], list[InstalledPlugin]] = {}
    for plugin in plugins:
        base = _shown(plugin.cls).partition("$")[0]
        groups.setdefault((base, plugin.cls.config_model), []).append(plugin)
    return sorted(groups.values(), key=lambda group: _shown(group[0].cls))


def _shown(cls: type[Plugin]) -> str:
    return cls.java_names[0].rsplit(".", 1)[-1] if cls.java_names else cls.__name__


def _plugin(group: list[InstalledPlugin]) -> Iterator[str]:
    first = group[0].cls
    documented = first if len(group) == 1 else first.__mro__[1]
    names = ", ".join(f"`{name}`" for each in group for name in sorted(each.names_in_full()))
    title = _shown(first).partition("$")[0]
    text = " ".join((documented.__doc__ or "").split())
    yield from _table(title, first.config_model.settings(), text, names)


def _table(
    title: str, settings: Iterable[ConfigKey], text: str = "", names: str = ""
) -> Iterator[str]:
    yield ""
    yield f"### {title}"
    for paragraph in (text, names):
        if paragraph:
            yield ""
            yield paragraph
    rows = list(settings)
    if not rows:
        return
    yield ""
    yield "| setting | type | default | meaning |"
    yield "|-|-|-|-|"
    for setting in rows:
        default = "required" if setting.required else _code(setting.shown_default)
        meaning = setting.doc.replace("|", "\\|")
        if setting.choices:
            meaning += f" One of: {', '.join(setting.choices)}."
        if setting.also:
            meaning += f" Also: {', '.join(f'`{name}`' for name in setting.also)}."
        yield f"| `{setting.name}` | {setting.kind.lower()} | {default} | {meaning} |"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""
