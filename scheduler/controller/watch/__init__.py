"""Lists and watches of the kinds that decisions read, and the reconciliation that repairs missed events."""
