"""A stand-in for mjlab: modules of the same names, which call MuJoCo Warp in the same ways. For tests without mjlab."""
