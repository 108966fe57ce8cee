"""Perform and judge one run (`run`) or many on all cores (`workers`); judge stored histories (`judging`), also foreign ones."""
