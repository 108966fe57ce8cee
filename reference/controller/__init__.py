"""reference.controller."""
