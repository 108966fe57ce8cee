"""Perform and judge one run (`run`) or many on all cores (`workers`), and judge histories of other systems (`foreign`)."""
