"""All that leans on MuJoCo Warp: data, stages, private names, row-free steps, drop-in functions."""
