"""Plugins: found by entry points, loaded on demand, refused with names."""
