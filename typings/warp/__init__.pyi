# Warp compiles kernels from its own dialect of Python, which its type information does not describe (items of arrays,
# vector arithmetic, array types that differ between host and kernel); to the type checker its names are Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
