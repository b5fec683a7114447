"""`hooksdk sessions`, and stored sessions as other commands read them."""
