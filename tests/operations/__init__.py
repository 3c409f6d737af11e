"""What a user can ask of a cluster."""
