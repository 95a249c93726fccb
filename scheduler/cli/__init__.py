"""The command line, one file a command; ``app.py`` lists them."""
