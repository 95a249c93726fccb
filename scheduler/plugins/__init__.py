"""The built-in plugins: a file for each small one, a folder for each family; ``registry.py`` lists them."""
