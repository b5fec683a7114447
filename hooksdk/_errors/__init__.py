"""Below `errors.py`: the words that errors share."""
