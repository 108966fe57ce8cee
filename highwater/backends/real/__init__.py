"""Runs on real nodes against a real ZooKeeper: what `processes/` and `containers/` share, and these two.

A *site* is what the two provide: nodes, links, clocks, directories, ZooKeeper servers. The *stage* plays a plan on a site.
"""
