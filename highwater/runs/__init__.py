"""One run from a plan to its report (`run`), many on all cores (`workers`), histories of other systems (`foreign`)."""
