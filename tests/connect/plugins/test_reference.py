"""The reference page says what the models say."""

from __future__ import annotations

from moldau.connect.plugins import Catalogue, PluginKind
from tests.connect.plugins.renew_reference import PAGE, current


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == current(), (
        "run: python -m tests.connect.plugins.renew_reference"
    )


def test_every_plugin_and_setting_is_on_the_page() -> None:
    page = current()

    for kind in PluginKind:
        if kind is PluginKind.CONNECTOR:
            continue
        for plugin in Catalogue.installed().all(kind):
            assert f"`{plugin.names_in_full()[0]}`" in page, plugin.name
            for setting in plugin.cls.config_model.settings():
                assert f"| `{setting.name}` |" in page


def test_every_setting_is_documented() -> None:
    for kind in PluginKind:
        for plugin in Catalogue.installed().all(kind):
            for setting in plugin.cls.config_model.settings():
                assert setting.doc, f"{plugin.name}: {setting.name}"
