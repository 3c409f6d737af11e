"""Assignors beside Java's: the same shares for the same members."""
