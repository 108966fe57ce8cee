"""Checkers of who may lead, control and write state: elections, epochs, fencing."""
