"""The built-in plugins, one file each with its parts beside it; ``registry.py`` lists them."""
