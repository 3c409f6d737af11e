"""What a connector's config means on this machine: the plugins it names, and its secrets."""
