"""Questions about the cluster, answered on a fork by the cycle that decides: nothing of the engine's state changes."""
