"""What the cluster says, as immutable values: the fields that scheduling reads, and the rules to read them by."""
