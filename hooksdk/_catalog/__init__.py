"""Below `catalog.py`."""
