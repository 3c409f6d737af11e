"""Backups of a cluster in a bucket, and their restore; see README.md."""
