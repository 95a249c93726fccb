"""Leader election by a Lease, and the token that every write checks."""
