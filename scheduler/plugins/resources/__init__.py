"""The resource plugins: NodeResourcesFit and NodeResourcesBalancedAllocation."""
