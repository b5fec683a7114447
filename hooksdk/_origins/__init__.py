"""What texts that an agent reads are worth, and where the values that it passes on come from."""
