"""Edits of the code that are aimed at an expression or at statements of a function, and not at lines of text."""
