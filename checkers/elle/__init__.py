"""Judge whether transactions are isolated as promised, by Elle's method: dependencies from values, cycles among them."""
