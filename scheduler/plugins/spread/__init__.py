"""The plugin PodTopologySpread: even numbers of matching pods over the domains of a label."""
