"""Histories that others recorded, in the forms they are published in, as steps and calls for the models of checkers."""
