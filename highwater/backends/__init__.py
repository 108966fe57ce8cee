"""highwater.backends."""
