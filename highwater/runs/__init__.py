"""One run from a plan to a page (`run`), many on all cores (`workers`), and histories from elsewhere (`foreign`)."""
