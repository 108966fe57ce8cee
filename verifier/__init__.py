"""Checks certificates: whether a witness proves a verdict on a history of another system. It imports no judge."""
