"""Values of secrets, found however they are written, and their placeholders put in their place."""
