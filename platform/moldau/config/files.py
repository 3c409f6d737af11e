"""Settings from a file, whichever format its name says it has.

Reading is somebody else's: any object with `read_text(path)` will do, such as the runtime's files
or a dict in a test. Whatever is wrong with the file becomes a ConfigError that names it.
"""

from __future__ import annotations

from typing import Protocol

from moldau.config.given import Layer
from moldau.errors import ConfigError

FORMATS = (".properties", ".json", ".toml", ".yaml", ".yml")


class TextFiles(Protocol):
    """Where files are read from; OSError for those that cannot be."""

    def read_text(self, path: str, /) -> str: ...


def load_text(text: str, file: str) -> Layer:
    """The settings in `text`, which came from a file of this name."""
    if file.endswith(".properties"):
        from moldau.config.properties import load_properties

        return load_properties(text.removeprefix("\ufeff"), file)
    if file.endswith(".json"):
        from moldau.config.json_text import load_json

        return load_json(text, file)
    if file.endswith(".toml"):
        from moldau.config.toml_text import load_toml

        return load_toml(text, file)
    if file.endswith((".yaml", ".yml")):
        from moldau.config.yaml_text import load_yaml

        return load_yaml(text, file)
    raise ConfigError("the name of a settings file ends in its format", file=file, allowed=FORMATS)


def load_file(files: TextFiles, path: str) -> Layer:
    """Reads `path` and gives its settings."""
    if not path.endswith(FORMATS):
        return load_text("", path)
    try:
        text = files.read_text(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError("the settings file cannot be read", file=path, why=why) from error
    except UnicodeDecodeError as error:
        at = {"position": error.start, "why": error.reason}
        # Without its cause, which carries the whole content, passwords and all.
        raise ConfigError("the settings file is not UTF-8", file=path, **at) from None
    return load_text(text, path)
