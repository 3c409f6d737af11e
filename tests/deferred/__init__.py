"""What a start leaves for later."""
