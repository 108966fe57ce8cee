"""How rows become a verdict: checkers, the forms of rows that they read, whole histories, parts and ranges."""
