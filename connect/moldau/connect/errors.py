"""The errors that connectors, converters and transforms raise.

`ConnectError`    the task fails: a person has to repair the cause.
`PermanentError`  the same, and the worker does not restart the task: only another config helps.
`RetriableError`  the same call may work later: the worker repeats it within `errors.retry.timeout`.
`DataError`       one record is bad: it is skipped or sent to the dead letter queue if the connector
                  tolerates errors.
"""

from __future__ import annotations

from moldau.errors import MoldauError


class ConnectError(MoldauError):
    """A connector, task, converter or transform cannot continue."""


class PermanentError(ConnectError):
    """A failure that lasts until the config is changed or a person restarts the task."""


class RetriableError(ConnectError):
    """A failure that can pass by itself, such as a lost connection."""


class DataError(ConnectError):
    """A value that does not fit its schema, or bytes that a converter cannot read."""
