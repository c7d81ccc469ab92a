"""ComFree's parameters as its paper varies them."""

GRID = tuple(
    f"comfree:stiffness={stiffness},damping={damping}" for stiffness in (0.1, 0.3, 0.5) for damping in (0.001, 0.005)
)
"""Methods of the sweep over stiffness and damping."""
