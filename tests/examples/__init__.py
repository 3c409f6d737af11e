"""The examples run as a user would run them."""
