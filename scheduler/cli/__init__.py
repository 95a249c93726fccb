"""The command line, one file a command; ``commands.py`` lists them."""
