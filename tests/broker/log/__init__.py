"""The log: files, indexes, recovery, directories."""
