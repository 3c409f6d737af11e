"""The settings of a client from a file, such as the `.properties` file of a Java client.

async with Consumer(load_settings("consumer.properties"), client_id="nightly") as consumer:
"""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath

from moldau.client.base.user_code import LOG
from moldau.config import load_file
from moldau.runtime.places import absolute_path
from moldau.runtime.real_files import RealFiles

_OWN_FORMATS = (".toml", ".yaml", ".yml", ".json")


def load_settings(path: str | PathLike[str]) -> dict[str, str]:
    """The settings in a file, by Kafka's names. Its ending (.toml, .yaml, .yml, .json) says what is
    in it; any other is read as Java's `.properties`, which may have keys of other programs: they
    are left out with a warning, as in Java. ConfigError names a file that cannot be read, and where
    it is wrong."""
    settings, notices = read_settings(path)
    for each in notices:
        LOG.warning("%s", each)
    return settings


def read_settings(path: str | PathLike[str]) -> tuple[dict[str, str], list[str]]:
    """The settings as `load_settings` has them, and its warnings."""
    name = fspath(path)
    given = load_file(RealFiles(), absolute_path(name), otherwise=".properties")
    settings = {each.name: _text(each.value) for each in given if each.value is not None}
    unknown = {} if name.endswith(_OWN_FORMATS) else unknown_to_clients(settings)
    left_out = f"no client has this setting, so it is left out ({name})"
    notices = [
        f"{each}: {left_out}" + (f"; did you mean {nearest}?" if nearest else "")
        for each, nearest in unknown.items()
    ]
    return {key: text for key, text in settings.items() if key not in unknown}, notices


def unknown_to_clients(names: Iterable[str]) -> dict[str, str | None]:
    """The names that no client has, each with the nearest known one. What may be a secret, or is
    gone, stays for the client to refuse."""
    from moldau.client.settings.every_client import why_without_meaning
    from moldau.client.settings.rows import ALL_TABLES, KNOWN_NAMES

    return {
        name: next((near for each in ALL_TABLES if (near := each.nearest(name))), None)
        for name in names
        if name not in KNOWN_NAMES and why_without_meaning(name) is None
        if not any(
            each.is_open(name) or each.instead_of(name) or each.secret_before(name)
            for each in ALL_TABLES
        )
    }


def _text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)
