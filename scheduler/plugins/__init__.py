"""The built-in plugins: a file for a small one, a folder for a family; ``registry.py`` lists them."""
