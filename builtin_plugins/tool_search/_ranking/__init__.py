"""Which tools fit a query best."""
