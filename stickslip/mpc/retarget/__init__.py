"""Motion retargeting: from a kinematic motion to controls whose simulated motion stays close to it."""
