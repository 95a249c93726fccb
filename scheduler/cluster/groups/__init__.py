"""Groups of pods that are scheduled together, whichever API names them."""
