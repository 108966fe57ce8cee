"""highwater.cli."""
