"""Where a plan is performed: `sim` in virtual time, `real` on processes or containers. Neither imports the other."""
