"""How does error depend on cost, and what survives?"""
