"""`hooksdk run`, and a run on the terminal for the commands that have one."""
