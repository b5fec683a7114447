"""Below `agent.py`."""
