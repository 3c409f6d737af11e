"""The broker, layer by layer."""
