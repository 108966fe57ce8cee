"""highwater.admin."""
