"""The plugin InterPodAffinity: required and preferred terms of pods, in both directions."""
