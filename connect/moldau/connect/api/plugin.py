"""What all plugins share: a model of their settings, names that they answer to, a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from moldau.connect.config.model import ConfigModel, Problem


class Plugin:
    """A class that a config names. Its module is imported only when a config asks for it."""

    config_model: ClassVar[type[ConfigModel]] = ConfigModel
    """The settings; validation, documentation and JSON schema follow from it."""

    java_names: ClassVar[tuple[str, ...]] = ()
    """Full names of the Java classes that this class stands for. The first is the name that the
    REST API shows; without any, it is the Python name `module.Class`."""

    @classmethod
    def version(cls) -> str | None:
        """The version to show; None takes that of the installed distribution."""
        return None

    def validate(self, props: Mapping[str, str]) -> list[Problem]:
        """Problems that the model alone cannot see, such as a server that cannot be reached.

        Called on an instance that was not started, also when single settings are wrong.
        """
        return []

    def dry_run(self, props: Mapping[str, str]) -> list[Problem]:
        """What would keep it from working now: what `validate` finds, and what may pass or appear
        later, such as a server that is down or a table that is missing. Nothing is changed."""
        return self.validate(props)
