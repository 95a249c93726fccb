"""Lists and watches of the kinds that decisions read, and the comparison that repairs what a watch missed."""
