"""reference.broker."""
