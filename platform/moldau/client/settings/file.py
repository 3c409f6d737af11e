"""The settings of a client from a file, such as the `.properties` file of a Java client.

async with Consumer(load_settings("consumer.properties"), client_id="nightly") as consumer:
"""

from __future__ import annotations

from os import PathLike, fspath

from moldau.config import load_file
from moldau.runtime.places import absolute_path
from moldau.runtime.real_files import RealFiles


def load_settings(path: str | PathLike[str]) -> dict[str, str]:
    """The settings in a file, by Kafka's names. Its ending (.toml, .yaml, .yml, .json) says what is
    in it; any other is read as Java's `.properties`. ConfigError names a file that cannot be read,
    and where it is wrong."""
    given = load_file(RealFiles(), absolute_path(fspath(path)), otherwise=".properties")
    return {each.name: _text(each.value) for each in given if each.value is not None}


def _text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)
