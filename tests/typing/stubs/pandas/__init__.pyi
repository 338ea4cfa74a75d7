# pandas states no types, and those that pyright reads off its code are wrong for rows and groups: all of it is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
