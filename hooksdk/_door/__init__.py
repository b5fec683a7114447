"""What public calls check of their arguments, and what they take besides hooksdk's own objects."""
