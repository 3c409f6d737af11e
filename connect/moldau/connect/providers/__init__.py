"""Config providers: the environment, `.properties` files, and directories of secrets.

Each provides only what its allowlist names, and nothing without an allowlist: a connector config
comes over the network, and must not be able to read any file of the worker (CVE-2024-31141).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from moldau.config.references import (
    ConfigProvider as Lookup,
)
from moldau.config.references import (
    DirectoryProvider,
    EnvironmentProvider,
    FileProvider,
)
from moldau.connect.api.provider import ConfigProvider, ProvidedValues
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.errors import ConfigError
from moldau.runtime.children import process_environment
from moldau.runtime.real_files import RealFiles

_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."


class _Looking(ConfigProvider):
    """A provider that uses one of the platform's providers, which also serve the broker."""

    _lookup: Lookup

    def get(self, path: str, keys: Set[str]) -> ProvidedValues:
        return ProvidedValues({name: self._lookup.lookup(path, name) for name in keys})


class EnvVarConfig(ConfigModel):
    """Settings of the EnvVarConfigProvider."""

    allowed: str = key(
        "allowlist.pattern", "", doc="The variables that may be read, as a regular expression."
    )

    def check(self) -> Iterable[Problem]:
        try:
            EnvironmentProvider({}, self.allowed)
        except ConfigError as error:
            yield Problem("allowlist.pattern", str(error))


class EnvVarConfigProvider(_Looking):
    """`${env:NAME}`: the value of a variable of the worker's environment."""

    java_names = (_JAVA_PACKAGE + "EnvVarConfigProvider",)
    config_model = EnvVarConfig

    def configure(self, props: Mapping[str, str]) -> None:
        allowed = EnvVarConfig.of(props).allowed
        self._lookup = EnvironmentProvider(process_environment(), allowed)


class AllowedPathsConfig(ConfigModel):
    """Settings of the providers that read files."""

    allowed: list[str] = key(
        "allowed.paths", [], doc="The files and directories that may be read; absolute paths."
    )

    def check(self) -> Iterable[Problem]:
        try:
            FileProvider(RealFiles(), self.allowed)
        except ConfigError as error:
            yield Problem("allowed.paths", str(error))


class FileConfigProvider(_Looking):
    """`${file:/path/to.properties:key}`: a value of a `.properties` file."""

    java_names = (_JAVA_PACKAGE + "FileConfigProvider",)
    config_model = AllowedPathsConfig

    def configure(self, props: Mapping[str, str]) -> None:
        self._lookup = FileProvider(RealFiles(), AllowedPathsConfig.of(props).allowed)


class DirectoryConfigProvider(_Looking):
    """`${directory:/path:file}`: the whole text of a file, such as a mounted container secret."""

    java_names = (_JAVA_PACKAGE + "DirectoryConfigProvider",)
    config_model = AllowedPathsConfig

    def configure(self, props: Mapping[str, str]) -> None:
        self._lookup = DirectoryProvider(RealFiles(), AllowedPathsConfig.of(props).allowed)
