from typing import Any
from echo_torch.host import Host
def device_type(call): 
    v = call.node.meta["val"]; v = v[0] if isinstance(v,(tuple,list)) else v
    return v.device.type if hasattr(v,"device") else "cpu"
def fill(host: Host, measure: bool) -> None: pass
