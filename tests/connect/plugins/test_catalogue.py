"""Plugins are found by each of their names, and broken ones break nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.connect.plugins import Catalogue, PluginKind, PluginNotFound
from moldau.connect.plugins.java_classes import COUNTERPARTS
from tests.connect.plugins.installed import catalogue
from tests.connect.plugins.own import NullSink, Suffix, TickSourceConnector


@pytest.mark.parametrize(
    ("kind", "name", "cls"),
    [
        (PluginKind.CONNECTOR, "com.example.TickSourceConnector", TickSourceConnector),
        (PluginKind.CONNECTOR, " com.example.OldTicks ", TickSourceConnector),
        (PluginKind.CONNECTOR, "TickSourceConnector", TickSourceConnector),
        (PluginKind.CONNECTOR, "TickSource", TickSourceConnector),
        (PluginKind.CONNECTOR, "NullSink", NullSink),
        (PluginKind.CONNECTOR, "tests.connect.plugins.own.NullSink", NullSink),
        (PluginKind.TRANSFORMATION, "com.example.Suffix$Value", Suffix),
        (PluginKind.TRANSFORMATION, "Suffix$Value", Suffix),
    ],
)
def test_each_name_finds_it(kind: PluginKind, name: str, cls: type) -> None:
    assert catalogue().find(kind, name).cls is cls


def test_what_is_not_installed_is_refused_with_the_nearest_name() -> None:
    for near in ("TickSorceConnector", "com.example.TickSorceConnector"):
        with pytest.raises(PluginNotFound, match=r'did you mean ".*TickSourceConnector"'):
            catalogue().find(PluginKind.CONNECTOR, near)


def test_a_class_of_another_product_is_no_slip_of_the_pen() -> None:
    with pytest.raises(PluginNotFound) as refused:
        catalogue().find(PluginKind.CONNECTOR, "io.debezium.connector.postgresql.PostgresConnector")
    assert "did you mean" not in str(refused.value)
    assert "JARs do not run here; what does its work: JdbcSource" in str(refused.value)
    with pytest.raises(PluginNotFound, match="JARs do not run here") as refused:
        catalogue().find(PluginKind.CONNECTOR, "org.other.TickSourceConnectors")
    assert "did you mean" not in str(refused.value)


def test_no_class_in_the_table_of_counterparts_is_installed() -> None:
    installed = Catalogue.installed()
    for name in COUNTERPARTS:
        for kind in PluginKind:
            with pytest.raises(PluginNotFound):
                installed.find(kind, name)
    assert len(COUNTERPARTS) >= 40


def test_the_guide_has_the_table_of_counterparts() -> None:
    page = (Path(__file__).parents[3] / "docs" / "connect.md").read_text(encoding="utf-8")
    for name, instead in COUNTERPARTS.items():
        assert f"| `{name.rpartition('.')[0]}` | `{name.rpartition('.')[2]}` | {instead} |" in page


def test_code_is_not_chosen_by_a_dotted_name() -> None:
    with pytest.raises(PluginNotFound):
        catalogue().find(PluginKind.CONNECTOR, "subprocess.Popen")


def test_what_cannot_be_loaded_is_listed_and_the_rest_works() -> None:
    plugins = catalogue()

    names = [(plugin.name, plugin.type) for plugin in plugins.all(PluginKind.CONNECTOR)]

    assert names == [
        ("com.example.TickSourceConnector", "source"),
        ("tests.connect.plugins.own.NullSink", "sink"),
    ]
    assert [broken.entry for broken in plugins.broken] == ["Missing", "NeedsMoreConnector"]
    assert plugins.all(PluginKind.TRANSFORMATION)[0].type == "transformation"
    assert "Number" in [broken.entry for broken in plugins.broken]


def test_a_plugin_that_cannot_be_loaded_says_why() -> None:
    with pytest.raises(PluginNotFound, match="is installed but cannot be loaded"):
        catalogue().find(PluginKind.CONNECTOR, "com.other.NeedsMoreConnector")


def test_versions_are_the_plugins_own_or_the_distributions() -> None:
    plugins = catalogue()

    assert plugins.find(PluginKind.CONNECTOR, "NullSink").version == "9.9"
    assert plugins.find(PluginKind.CONNECTOR, "TickSource").version == "1.0"


def test_what_is_installed_is_found_by_its_java_name() -> None:
    installed = Catalogue.installed()

    found = installed.find(PluginKind.CONVERTER, "org.apache.kafka.connect.json.JsonConverter")

    assert found.cls.__name__ == "JsonConverter"
    assert installed.broken == []


def printed(code: str) -> str:
    """By a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("kind", "name", "other"),
    [
        ("CONVERTER", "String", "moldau.connect.converters.json"),
        ("CONNECTOR", "org.apache.kafka.connect.file.FileStreamSinkConnector", "sqlalchemy"),
        ("CONNECTOR", "FileStreamSinkConnector", "sqlalchemy"),
        ("CONNECTOR", "FileStreamSink", "sqlalchemy"),
    ],
)
def test_one_plugin_is_loaded_without_the_others(kind: str, name: str, other: str) -> None:
    code = (
        "import sys\n"
        "from moldau.connect.plugins import Catalogue, PluginKind\n"
        f"Catalogue.installed().find(PluginKind.{kind}, '{name}')\n"
        f"print('{other}' in sys.modules)\n"
    )

    assert printed(code) == "False"


def test_the_secrets_of_a_config_load_only_the_plugins_that_it_names() -> None:
    code = (
        "import sys\n"
        "from moldau.connect.installed.secrets import secret_values\n"
        "props = {'connector.class': 'FileStreamSink', 'file': 'f', 'topics': 't'}\n"
        "assert secret_values({**props, 'my.password': 'hush'}) == {'hush'}\n"
        "print([each for each in ('sqlalchemy', 'moldau.connect.converters.avro')\n"
        "       if each in sys.modules])\n"
    )

    assert printed(code) == "[]"
