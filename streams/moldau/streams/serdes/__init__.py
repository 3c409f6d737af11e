"""Codecs by type, and the layouts of windowed keys."""
