"""Other people's code and our own background work: time limits, cancellation, shielding."""
