"""Checkers of what is promised to stay, and of the logs and high watermarks that keep it."""
