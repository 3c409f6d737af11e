"""Reads settings from a file, in the format that its name ends in.

The caller passes an object that reads the file: it only needs `read_text(path)`, such as the
runtime's files or a dict in a test. Every error of the file is a ConfigError that names it.
"""

from __future__ import annotations

from typing import Protocol

from moldau.config.given import Layer
from moldau.errors import ConfigError

FORMATS = (".properties", ".json", ".toml", ".yaml", ".yml")


class TextFiles(Protocol):
    """An object that reads files. It raises OSError for a file that cannot be read."""

    def read_text(self, path: str, /) -> str: ...


def load_text(text: str, file: str, *, otherwise: str | None = None) -> Layer:
    """Return the settings in `text`, which came from a file of this name. `otherwise` is the format
    of names without a known ending."""
    ending = _format_of(file, otherwise)
    if ending == ".properties":
        from moldau.config.properties import load_properties

        return load_properties(text.removeprefix("\ufeff"), file)
    if ending == ".json":
        from moldau.config.json_text import load_json

        return load_json(text, file)
    if ending == ".toml":
        from moldau.config.toml_text import load_toml

        return load_toml(text, file)
    from moldau.config.yaml_text import load_yaml

    return load_yaml(text, file)


def _format_of(file: str, otherwise: str | None) -> str:
    for ending in FORMATS:
        if file.endswith(ending):
            return ending
    if otherwise is None:
        reason = "the name of a settings file ends in its format"
        raise ConfigError(reason, file=file, allowed=FORMATS)
    return otherwise


def load_file(files: TextFiles, path: str, *, otherwise: str | None = None) -> Layer:
    """Read `path` and return its settings, as `load_text` does. Properties that are not UTF-8 are
    read as Latin-1, as Java does."""
    ending = _format_of(path, otherwise)  # rejects a name without a format before the file is read
    try:
        text = files.read_text(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError("the settings file cannot be read", file=path, why=why) from error
    except UnicodeDecodeError as error:
        if ending != ".properties":
            at = {"position": error.start, "why": error.reason}
            # Without the cause, which contains the whole content, with its passwords.
            raise ConfigError("the settings file is not UTF-8", file=path, **at) from None
        text = error.object.decode("latin-1")
    return load_text(text, path, otherwise=otherwise)
