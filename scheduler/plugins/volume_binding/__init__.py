"""VolumeBinding."""
