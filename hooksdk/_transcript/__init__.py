"""Below `transcript.py`: stored messages, the journal of trims, and the view made of both."""
