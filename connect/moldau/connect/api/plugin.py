"""What all plugins share: a model of their settings, their names in configs, a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from moldau.connect.config.model import ConfigModel, Problem


class Plugin:
    """A class that a config names. Its module is imported only when a config uses it."""

    config_model: ClassVar[type[ConfigModel]] = ConfigModel
    """The model of the settings, which defines validation, documentation and JSON schema."""

    java_names: ClassVar[tuple[str, ...]] = ()
    """Full names of the Java classes that this class stands for. The first is the name that the
    REST API shows; without any, it is the Python name `module.Class`."""

    libraries: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Modules that the plugin needs, each with the extra of moldau-platform that installs it. A
    config that names the plugin is refused if one is missing."""

    @classmethod
    def version(cls) -> str | None:
        """Return the version to show; None for the version of the installed distribution."""
        return None

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        """Return problems that the model cannot detect, such as a server that cannot be reached.

        It is called on an instance that was not started, also when single settings are wrong.
        """
        return []

    def dry_run(self, props: Mapping[str, str]) -> list[Problem]:
        """Return every problem that would stop the plugin from working now, and change nothing:
        those of `validate`, and temporary ones, such as a server that is down or a missing table.
        """
        return self.validate(props)
