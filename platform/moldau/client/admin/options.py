"""Typed keywords of the clients: those of `Admin`. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

from moldau.client.settings.connection_options import ConnectionOptions


class AdminOptions(ConnectionOptions, total=False):
    """Kafka's settings with underscores for dots."""
