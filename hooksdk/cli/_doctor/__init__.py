"""`hooksdk doctor`."""
