"""Adapters to frameworks and protocols. Each module imports what it adapts; nothing else in hooksdk does."""
