"""Below `approvals.py`: what is asked and answered, and what is remembered of it."""
