"""Requests to apps, and the replies to them."""
