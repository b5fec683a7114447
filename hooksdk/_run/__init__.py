"""Below `run.py`: the steps of a run and of a tool call, and what they share."""
