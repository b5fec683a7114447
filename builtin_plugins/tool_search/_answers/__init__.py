"""What a model reads after a search, a description or a name that no tool has."""
