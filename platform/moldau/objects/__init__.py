"""Objects in a bucket; see README.md."""
