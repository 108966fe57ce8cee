"""Perform and judge one run (`run`), also as an item of work (`workers`); judge stored and foreign histories (`judging`)."""
