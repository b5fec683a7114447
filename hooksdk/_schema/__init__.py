"""JSON Schema: checking arguments with bounded work, explaining what is wrong, repairing shapes."""
