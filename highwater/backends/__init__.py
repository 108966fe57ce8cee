"""Where runs are performed: `sim` in virtual time, `real` on processes or containers. Neither imports the other."""
