"""Perform and judge one run (`run`), also as an item of work (`workers`); judge many stored histories (`judging`)."""
