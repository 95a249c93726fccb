"""The plugins for groups of pods: quorum, number of pods, and placement in one domain."""
