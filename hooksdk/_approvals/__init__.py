"""Below `approvals.py`: what is asked and answered, what is remembered of it, and the question on a terminal."""
