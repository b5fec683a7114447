"""`hooksdk replay`."""
