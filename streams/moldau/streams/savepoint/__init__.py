"""Savepoints: the stores and offsets of an app at one commit, outside its cluster."""
