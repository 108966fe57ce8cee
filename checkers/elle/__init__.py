"""Are the transactions of a history isolated as promised? Elle's method: dependencies from values, cycles among them."""
