"""The Python transform: calls a user's function, `module:function`, with each record.

A connector config comes over the network, so it must not choose code. The worker names the modules
that transforms may use (`transforms.python.modules`); without it, each config with this transform
is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from moldau.connect.api.transformation import R, Transformation
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.errors import DataError
from moldau.errors import ConfigError

WORKER_SETTING = "transforms.python.modules"
_allowed: ContextVar[tuple[str, ...]] = ContextVar("_allowed", default=())


@contextmanager
def allowed_modules(worker: Mapping[str, str]) -> Iterator[None]:
    """Allow the modules that a worker's settings name, each with all modules below it. Configs of
    this transform are validated and read inside this block."""
    names = [name.strip() for name in worker.get(WORKER_SETTING, "").split(",")]
    token = _allowed.set(tuple(name for name in names if name))
    try:
        yield
    finally:
        _allowed.reset(token)


def _is_allowed(module: str) -> bool:
    return any(module == each or module.startswith(each + ".") for each in _allowed.get())


class PythonConfig(ConfigModel):
    """Settings of the Python transform."""

    open_prefixes = ("arg.",)

    function: str = key(
        "function",
        doc="`module:function`. It gets the record and gives a record, or None to drop it. "
        "Settings that begin with `arg.` are passed as texts, by name.",
        importance="high",
    )

    def check(self) -> Iterable[Problem]:
        if "function" in self.wrong:
            return
        module, colon, name = self.function.partition(":")
        if not (module and colon and name.isidentifier()):
            yield Problem("function", f"{self.function!r} is not of the form module:function")
        elif not _is_allowed(module):
            yield Problem(
                "function",
                f"the worker does not allow the module {module!r} in transforms; "
                f"add it to {WORKER_SETTING} in the worker config",
            )


class Python(Transformation):
    """Calls a Python function with each record. The worker has to allow the function's module: its
    setting `transforms.python.modules` is a list of modules, each with all modules below it."""

    config_model = PythonConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = PythonConfig.of(props)
        self._name = config.function
        self._function = _loaded(config.function)
        self._arguments = config.with_prefix("arg.")

    def apply(self, record: R) -> R | None:
        changed = self._function(record, **self._arguments)
        if changed is None or isinstance(changed, type(record)):
            return changed
        raise DataError(
            f"{self._name} must give a {type(record).__name__} or None, "
            f"not a {type(changed).__name__}"
        )


def _loaded(named: str) -> Callable[..., Any]:
    module, _, name = named.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"the function {named} cannot be loaded: {error}") from error
    if not callable(function):
        raise ConfigError(f"{named} is no function")
    loaded: Callable[..., Any] = function
    return loaded
