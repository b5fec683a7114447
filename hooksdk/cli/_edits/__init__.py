"""Changing files of a person: shown before it is done, and every byte left that is not meant."""
