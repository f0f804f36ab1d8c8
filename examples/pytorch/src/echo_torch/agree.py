from typing import Any
def on(what: str, value: Any) -> bool:
    return bool(value)
def share(make): return make()
