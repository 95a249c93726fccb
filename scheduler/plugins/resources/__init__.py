"""Requests against what nodes have: NodeResourcesFit and NodeResourcesBalancedAllocation."""
