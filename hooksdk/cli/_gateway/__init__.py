"""`hooksdk gateway`: serving, and standing in front of the clients of this machine."""
