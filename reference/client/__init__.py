"""Producers, consumers and administrators as machines without IO. `server` imports the administrator, `highwater` all of them."""
