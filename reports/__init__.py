"""Reports of a run and of a campaign: HTML pages and JUnit XML. Only `highwater` imports this folder."""
