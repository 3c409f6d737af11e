"""The registry and the Connect worker beside a cluster, for `moldau apply` and `moldau export`.

They are those of options, of the environment, or of the profile, which counts only for its own
cluster.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context
from moldau.cli.commands.cluster_connection import profile_beside
from moldau.cli.commands.registry_place import DEFAULT, VARIABLE, registry_place, registry_settings
from moldau.cli.connect_rest import DEFAULT_URL, Rest
from moldau.cli.connect_rest import VARIABLE as CONNECT_VARIABLE

if TYPE_CHECKING:
    from moldau.client.sync import SchemaRegistry

_CONNECT: Final = "--connect"


def add_places(parser: ArgumentParser) -> None:
    """Add `--registry` and `--connect`."""
    parser.add_argument(
        "--registry",
        metavar="URL",
        help=f"the Schema Registry; else ${VARIABLE}, else the profile's, else {DEFAULT}",
    )
    parser.add_argument(
        "--connect",
        dest="url",
        metavar="URL",
        help=f"a Connect worker's REST API; else ${CONNECT_VARIABLE}, else the profile's, else "
        f"{DEFAULT_URL}",
    )


class Places:
    """Opens the registry and the worker when they are asked for."""

    def __init__(self, arguments: Namespace, context: Context, stack: ExitStack) -> None:
        self._arguments = arguments
        self._context = context
        self._stack = stack
        self._clusters = (arguments.bootstrap, arguments.command_config)

    @property
    def has_registry(self) -> bool:
        """Whether something names a registry."""
        return registry_place(self._arguments.registry, self._context, *self._clusters) is not None

    def registry(self) -> SchemaRegistry:
        """Return the registry's client."""
        from moldau.client.sync import SchemaRegistry

        settings = registry_settings(
            self._arguments.registry,
            self._arguments.command_config,
            self._context,
            profile_beside(self._context, *self._clusters),
        )
        return self._stack.enter_context(SchemaRegistry(settings))

    @property
    def has_worker(self) -> bool:
        """Whether something names a Connect worker."""
        return self._worker_url() is not None

    def rest(self) -> Rest:
        """Return the worker's REST API."""
        arguments = Namespace(url=self._worker_url() or DEFAULT_URL)
        return self._stack.enter_context(Rest(arguments, self._context, _CONNECT))

    def _worker_url(self) -> str | None:
        profile = profile_beside(self._context, *self._clusters)
        variable = self._context.environment.get(CONNECT_VARIABLE)
        if self._context.profile_name is not None:
            variable = None
        return self._arguments.url or variable or profile.connect
