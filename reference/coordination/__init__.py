"""reference.coordination."""
