"""How deep do bodies sink into each other?"""
