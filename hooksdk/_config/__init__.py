"""Where settings come from, how they are laid over each other, and when a project's file is trusted. Below
`config.py`."""
