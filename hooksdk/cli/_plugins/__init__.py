"""`hooksdk plugins`."""
