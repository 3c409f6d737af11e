"""The whole, installed and run as a user does."""
