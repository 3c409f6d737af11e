"""Whole clusters with transactional clients: storms, and the planted bugs that they find."""
