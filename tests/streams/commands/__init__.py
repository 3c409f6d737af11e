"""The commands `moldau streams`."""
