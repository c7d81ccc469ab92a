"""Do recordings tell friction, mass and material, under which physics, and how fast?"""
