"""The requests of clients, each API for itself."""
