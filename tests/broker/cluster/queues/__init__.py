"""Whole clusters with share groups: storms, and the planted bugs that they find."""
