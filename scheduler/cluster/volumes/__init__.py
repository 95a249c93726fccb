"""Claims, volumes, classes and attachments: facts, their indexes, and what is assumed of them."""
