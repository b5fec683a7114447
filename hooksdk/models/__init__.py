"""Model clients over the providers' own SDKs, each imported by whoever uses it."""
