"""reference.replica."""
