"""Does friction stick, slide and stop as Coulomb's law says?"""
