"""Do free bodies move as rigid-body mechanics says?"""
