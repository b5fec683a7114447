"""The tools that fit what the user asked: how they are found, and which of those that resemble each other are left out."""
