"""The Connect worker: connectors from JSON configs, offsets, converters and transforms."""
