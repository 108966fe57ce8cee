"""reference.log."""
