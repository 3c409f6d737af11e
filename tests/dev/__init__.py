"""`moldau dev`."""
