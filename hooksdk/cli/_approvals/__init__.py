"""`hooksdk approvals`."""
