"""`hooksdk config` and `hooksdk trust`."""
