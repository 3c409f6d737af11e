"""Settings: rows, resolution, every format, and secrets that stay secret."""
