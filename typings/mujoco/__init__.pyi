# MuJoCo's Python package is a compiled module without type information; to the type checker its names are Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
