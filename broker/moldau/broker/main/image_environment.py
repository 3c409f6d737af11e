"""The settings of a node in a container, read as Apache Kafka's image `apache/kafka` reads them.

| given | the node has |
|-|-|
| neither variables nor a file | the settings of a standalone node that the host reaches |
| `KAFKA_*` variables, or `server.properties` in `/mnt/shared/config` | those, and no others |
| both | the file, then the variables |

So a compose file for `apache/kafka` works with another name of the image. `MOLDAU_*` variables come
after all of these. Variables that start with `KAFKA_` and are no settings of a broker (an engine
sets `KAFKA_PORT` for a service that is called kafka) are ignored, as Kafka does; a warning names
those that neither an engine nor the JVM has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.deferred import deferred_pattern

if TYPE_CHECKING:
    from moldau.config import Layer
    from moldau.config.given import RawValue
    from moldau.runtime.files import Files

MOUNTED: Final = "/mnt/shared/config/server.properties"
CLUSTER_ID: Final = "CLUSTER_ID"
DEFAULT_CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
"""Apache Kafka's image formats for this cluster if no other is named."""
_OF_ENGINE: Final = deferred_pattern(
    r"KAFKA_(?:\w+_)?(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT_\d+_\w+)"
)
"""What Docker and Kubernetes set for services whose names begin with kafka, beside `..._PORT`."""
_ENGINES_PORT: Final = ("_PORT", "tcp://")
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 (the container's own network)


def image_layer(
    environment: Mapping[str, str], files: Files, directory: str, mounted: str = MOUNTED
) -> Layer:
    """Return the settings of the file and of the variables, or those of a standalone node.
    `directory` is for the data, unless they name another one."""
    from moldau.broker.server.standalone import standalone_layer
    from moldau.config import load_file, overrides

    variables = known_variables(environment)
    from_file = load_file(files, mounted) if files.exists(mounted) else ()
    over = {each.name for each in variables}
    given = (*(each for each in from_file if each.name not in over), *variables)
    if not given:
        listeners: dict[str, RawValue] = {
            "listeners": f"PLAINTEXT://{_EVERY_ADDRESS}:9092,CONTROLLER://localhost:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092",
        }
        layer = standalone_layer(directory)
        return (*(each for each in layer if each.name not in listeners), *overrides(listeners))
    if {each.name for each in given} & {"log.dir", "log.dirs"}:
        return given
    return (*given, *overrides({"log.dirs": directory}))


def known_variables(environment: Mapping[str, str]) -> Layer:
    """Return the settings of a broker among the `KAFKA_*` variables."""
    from moldau.broker.settings import BROKER_SETTINGS
    from moldau.config import KAFKA_PREFIX, load_environment

    return tuple(
        each
        for each in load_environment(environment, KAFKA_PREFIX)
        if BROKER_SETTINGS.find(each.name) or BROKER_SETTINGS.is_open(each.name)
    )


def ignored_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a warning for each `KAFKA_*` variable that has no effect and looks like a setting."""
    from moldau.broker.settings import BROKER_SETTINGS
    from moldau.config import KAFKA_PREFIX, load_environment, variable_name

    known = {each.name for each in known_variables(environment)}
    warnings = []
    for each in load_environment(environment, KAFKA_PREFIX):
        variable = each.source.where
        if each.name in known or _is_of_engine(variable, environment[variable]):
            continue
        near = BROKER_SETTINGS.nearest(each.name)
        hint = f": did you mean {variable_name(near, KAFKA_PREFIX)}?" if near else ""
        warnings.append(f"{variable} is no setting of a broker and has no effect{hint}")
    return warnings


def _is_of_engine(variable: str, value: str) -> bool:
    ending, scheme = _ENGINES_PORT
    is_port = variable.endswith(ending) and value.startswith(scheme)
    return is_port or _OF_ENGINE.fullmatch(variable) is not None


def cluster_of(environment: Mapping[str, str]) -> str | None:
    """Return the id of the cluster for which an empty directory is formatted; None for a new one,
    of a node without settings."""
    default = DEFAULT_CLUSTER_ID if known_variables(environment) else None
    return environment.get(CLUSTER_ID) or default
