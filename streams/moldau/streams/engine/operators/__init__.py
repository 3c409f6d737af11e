"""Operators with code of their own, beside the generated loop."""
