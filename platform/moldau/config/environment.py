"""Settings from environment variables and from `key=value` arguments.

The convention is that of Kafka's own container images, with either prefix: `_` stands for a dot,
`__` for an underscore, `___` for a dash; `MOLDAU_LOG_RETENTION_MS` is `log.retention.ms`. These
variables are ignored: those that the images use for other things (`KAFKA_HEAP_OPTS`, ...), those of
the commands of `moldau` (`MOLDAU_BOOTSTRAP`, `MOLDAU_CONNECT`, ...), and those of moldau's own
tests and build (`MOLDAU_SEEDS`, ...). Any other variable with the prefix is a setting, so a
misspelt one is rejected and not ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from moldau.config.given import GivenValue, Layer, Source, SourceKind, is_writable
from moldau.deferred import deferred_pattern
from moldau.errors import ConfigError

MOLDAU_PREFIX = "MOLDAU_"
KAFKA_PREFIX = "KAFKA_"

# For moldau's tests and its build: CONTRIBUTING.md describes each.
_OF_DEVELOPMENT = frozenset(
    MOLDAU_PREFIX + name
    for name in (
        "CHAOS_CYCLES",
        "CONNECT_KILLS",
        "EXAMPLES",
        "KAFKA_LIBS",
        "KAFKA_MESSAGES",
        "PURE",
        "SEEDS",
        "SPARK_APPS",
        "SPARK_EVERY",
        "SPARK_KILLS",
        "SPARK_LOCAL_APPS",
        "STORM_CYCLES",
        "STREAMS_KILLS",
    )
)

# For commands that use a cluster; they are not settings of a broker.
_OF_COMMANDS = frozenset(
    MOLDAU_PREFIX + name
    for name in (
        "BOOTSTRAP",
        "COMMAND_CONFIG",
        "CONNECT",
        "CONNECT_CA",
        "CONNECT_TOKEN",
        "EVENTS",
        "HTTP_ALLOWED_HOSTS",
        "PROFILE",
        "REGISTRY",
        "STREAMS_LOGIN",
        "STREAMS_TOKEN",
    )
)

# For the JVM, its log4j or the image itself; no broker setting has these names.
NOT_SETTINGS = (_OF_DEVELOPMENT | _OF_COMMANDS) | frozenset(
    KAFKA_PREFIX + name
    for name in (
        "VERSION",
        "HOME",
        "OPTS",
        "HEAP_OPT",
        "HEAP_OPTS",
        "JMX_OPTS",
        "JMX_PORT",
        "JMX_HOSTNAME",
        "GC_LOG_OPTS",
        "JVM_PERFORMANCE_OPTS",
        "LOG4J_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "LOG4J_LOGGERS",
        "TOOLS_LOG4J_LOGLEVEL",
    )
)

_UNDERSCORES = deferred_pattern("_{1,3}")
_MEANING = {"_": ".", "__": "_", "___": "-"}
_BACK = {meaning: sign for sign, meaning in _MEANING.items()}


def setting_name(variable: str, prefix: str = MOLDAU_PREFIX) -> str:
    """Return the setting that an environment variable stands for."""
    assert variable.startswith(prefix)
    bare = variable[len(prefix) :].lower()
    return _UNDERSCORES.sub(lambda match: _MEANING[match[0]], bare)


def variable_name(setting: str, prefix: str = MOLDAU_PREFIX) -> str:
    """Return the environment variable of a setting, as documentation shows it."""
    return prefix + "".join(_BACK.get(sign, sign) for sign in setting).upper()


def load_environment(
    environment: Mapping[str, str],
    prefix: str = MOLDAU_PREFIX,
    *,
    except_for: Collection[str] = NOT_SETTINGS,
) -> Layer:
    """Return the settings among the variables of `environment`, sorted by variable.

    Python decodes bytes that are not UTF-8 to lone surrogates; those raise ConfigError.
    """
    layer = []
    for variable in sorted(environment):
        if variable.startswith(prefix) and variable not in except_for and variable != prefix:
            value = environment[variable]
            if not (is_writable(variable) and is_writable(value)):
                raise ConfigError("the environment variable is not UTF-8", variable=variable)
            source = Source(SourceKind.ENVIRONMENT, variable)
            layer.append(GivenValue(setting_name(variable, prefix), value, source))
    return tuple(layer)


def load_assignments(arguments: Iterable[str], option: str = "") -> Layer:
    """Return the settings of `key=value` arguments on a command line, under that `option`."""
    source = Source(SourceKind.COMMAND_LINE, option)
    layer = []
    for number, argument in enumerate(arguments, start=1):
        name, equals, value = argument.partition("=")
        if not equals or not name.strip():
            # The argument is not shown: it looks like a flag without its value, but may be a
            # password.
            raise ConfigError("an argument must be key=value", option=option, number=number)
        if not is_writable(argument):
            raise ConfigError("an argument is not UTF-8", option=option, number=number)
        layer.append(GivenValue(name.strip(), value, source))
    return tuple(layer)
