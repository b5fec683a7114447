"""The bridge tools: how they are shown, and the calls that are made through them."""
