"""Plugins with pluggy: how they are found, checked and ordered."""
