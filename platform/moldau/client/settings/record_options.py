"""Typed keywords of the clients: those of readers and writers. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

from moldau.client.settings.connection_options import ConnectionOptions
from moldau.client.settings.registry_options import RegistryOptions


class RecordOptions(ConnectionOptions, RegistryOptions, total=False):
    """Kafka's settings with underscores for dots."""

    metrics_sample_window_ms: int | str
    """How long one sample of a rate or an average lasts. Default: 30000."""

    metrics_num_samples: int | str
    """How many samples a rate or an average is made of. Default: 2."""
