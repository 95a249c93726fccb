"""The plugin VolumeBinding: claims that are bound together with their pod."""
