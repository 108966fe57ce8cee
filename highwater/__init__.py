"""highwater."""
