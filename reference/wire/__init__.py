"""reference.wire."""
