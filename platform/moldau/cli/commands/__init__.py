"""The commands that the platform itself brings, each by its entry point."""
