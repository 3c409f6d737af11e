"""`moldau streams`: run an app, show its topology, list its stores."""
