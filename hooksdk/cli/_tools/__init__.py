"""`hooksdk tools`."""
