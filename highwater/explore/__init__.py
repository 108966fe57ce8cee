"""highwater.explore."""
