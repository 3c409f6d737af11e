"""Searches through a topic: which records match, how far one has come, and the tasks that read."""
