"""Plugins are listed without being imported, and each failure says whose it is."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from moldau.plugins import PluginError, Plugins, installed_layers, installed_plugins
from moldau.plugins.layers import platform_version
from tests.plugins.entry_points import FakeEntryPoint, point

BROKEN = "tests.plugins.breaks_on_import:plugin"


def test_a_plugin_is_loaded_by_group_and_name() -> None:
    plugins = Plugins([point("transforms", "path", "pathlib:Path")])
    assert plugins.load("moldau.transforms", "path") is Path
    nested = Plugins([point("transforms", "home", "pathlib:Path.home")])
    assert nested.load("moldau.transforms", "home") == Path.home
    module = Plugins([point("transforms", "module", "pathlib")])
    assert module.load("moldau.transforms", "module") is sys.modules["pathlib"]


def test_nothing_is_imported_by_listing() -> None:
    plugins = Plugins([point("engines", "broken", BROKEN)])
    (plugin,) = plugins.named("moldau.engines").values()
    assert (plugin.name, plugin.distribution, plugin.version) == ("broken", "somebody-else", "1.0")
    assert BROKEN.split(":")[0] not in sys.modules


def test_entry_points_of_others_are_passed_over() -> None:
    foreign = FakeEntryPoint("console_scripts", "x", "os:system")
    plugins = Plugins([foreign, point("new_kind", "x", "os:sep")])
    assert plugins.groups() == ("moldau.new_kind",)
    assert plugins.named("console_scripts") == {}


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (BROKEN, "RuntimeError: no licence found"),
        ("no.such.module:x", "ModuleNotFoundError"),
        ("pathlib:NoSuchThing", "AttributeError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_owner(target: str, error: str) -> None:
    plugins = Plugins([point("converters", "mine", target)])
    with pytest.raises(PluginError, match="cannot be loaded") as caught:
        plugins.load("moldau.converters", "mine")
    facts = caught.value.context
    assert facts["distribution"] == "somebody-else 1.0"
    assert (facts["plugin"], facts["target"]) == ("mine", target)
    assert error in str(facts["error"])


def test_one_broken_plugin_does_not_hide_the_others() -> None:
    plugins = Plugins(
        [point("assignors", "good", "pathlib:Path"), point("assignors", "bad", BROKEN)]
    )
    loaded, failures = plugins.load_all("moldau.assignors")
    assert loaded == {"good": Path}
    (failure,) = failures
    assert failure.plugin.name == "bad"
    assert "no licence found" in str(failure.error)


def test_a_name_that_two_claim_belongs_to_neither() -> None:
    plugins = Plugins(
        [
            point("commands", "topics", "a:b", "one"),
            point("commands", "topics", "c:d", "two"),
            point("engines", "topics", "pathlib:Path", "one"),
        ]
    )
    assert plugins.named("moldau.commands") == {}
    (conflict,) = plugins.conflicts
    assert str(conflict) == ("topics in moldau.commands is claimed by one 1.0 (a:b), two 1.0 (c:d)")
    with pytest.raises(PluginError, match="two plugins have one name"):
        plugins.load("moldau.commands", "topics")
    assert plugins.load("moldau.engines", "topics") is Path


def test_the_same_entry_point_seen_twice_is_one() -> None:
    plugins = Plugins([point("engines", "x", "pathlib:Path")] * 2)
    assert plugins.conflicts == ()
    assert list(plugins.named("moldau.engines")) == ["x"]


def test_a_missing_plugin_brings_up_what_there_is() -> None:
    plugins = Plugins([point("engines", "embedded", "a:b"), point("engines", "spark", "a:c")])
    with pytest.raises(PluginError) as caught:
        plugins.load("moldau.engines", "flink")
    assert caught.value.context["installed"] == "embedded, spark"
    with pytest.raises(PluginError, match="installed='none'"):
        plugins.load("moldau.assignors", "range")


def test_a_dotted_path_is_never_imported() -> None:
    with pytest.raises(PluginError, match="no such plugin"):
        Plugins([]).load("moldau.engines", "pathlib:Path")


def test_what_is_installed_is_what_the_metadata_says() -> None:
    plugins = installed_plugins()
    assert plugins.conflicts == ()
    groups = plugins.groups()
    found = {(group, name) for group in groups for name in plugins.named(group)}
    expected = {(group, each.name) for group in groups for each in entry_points(group=group)}
    assert found == expected
    assert {"moldau.commands", "moldau.layers", "moldau.transforms"} <= set(groups)


def test_layers_tell_which_distributions_are_here() -> None:
    versions = {"moldau-platform": "1.2", "moldau-streams": "1.3"}
    layers = {layer.name: layer.version for layer in installed_layers(versions.get)}
    assert layers == {
        "platform": "1.2",
        "broker": None,
        "streams": "1.3",
        "connect": None,
        "connectors": None,
    }
    added = Plugins([point("layers", "shop", "a:b", "shop"), point("layers", "broker", "a:b")])
    (shop,) = installed_layers(versions.get, added.named("moldau.layers").values())[5:]
    assert (shop.name, shop.distribution, shop.version) == ("shop", "shop", "1.0")
    assert platform_version(versions.get) == "1.2"
    assert "unknown" in platform_version(lambda name: None)


def test_a_plugin_that_exits_on_import_is_broken_and_ends_nothing() -> None:
    plugins = Plugins([point("transforms", "exit", "tests.plugins.exits_on_import:plugin")])
    with pytest.raises(PluginError, match="SystemExit"):
        plugins.load("moldau.transforms", "exit")


def test_packages_are_looked_at_once_for_each_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = installed_plugins()
    assert installed_plugins() is before
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_plugins() is not before


def test_a_package_with_damaged_entry_points_is_named_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "damaged-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[console_scripts]\nfoo\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = installed_plugins()
    (problem,) = plugins.unreadable
    assert "damaged-1.0.dist-info" in str(problem)
    assert "version" in plugins.named("moldau.commands")


def test_a_package_whose_name_nobody_can_read_is_named_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "latin-1.0.dist-info"
    folder.mkdir()
    metadata = "Metadata-Version: 2.1\nName: latin\nAuthor: J\xf6rg\nVersion: 1.0\n"
    (folder / "METADATA").write_bytes(metadata.encode("latin-1"))
    (folder / "entry_points.txt").write_text("[moldau.commands]\nbad = a.b:c\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = installed_plugins()
    (problem,) = plugins.unreadable
    assert "latin-1.0.dist-info" in str(problem)
    assert "bad" not in plugins.named("moldau.commands")


def test_a_package_without_metadata_is_named_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bare-1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("[moldau.commands]\nbad = a.b:c\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = installed_plugins()
    (problem,) = plugins.unreadable
    assert "bare-1.0.dist-info" in str(problem)
