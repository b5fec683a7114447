"""`hooksdk demo`: a scripted model does a real job with real tools, and every hook at work is shown."""
