"""Making room for a pod: from a chosen candidate to the last victim gone."""
