"""Shrink a failing plan to the smallest one that fails in the same way, and that the protocol it is compared with survives."""
