"""Log directories as real files; knows nothing of who watches or harms them (`ports`)."""
