"""`hooksdk audit`."""
