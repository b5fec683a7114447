"""Code mode: the model writes a script that searches and calls."""
