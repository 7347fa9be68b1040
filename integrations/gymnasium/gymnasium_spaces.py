"""Spaces of Gymnasium as JSON Schemas, and their members as JSON."""

import numpy as np
from gymnasium import spaces


def schema(space):
    """The JSON Schema of a space; `x-space` names the space where the schema alone would not."""
    if isinstance(space, spaces.Discrete):
        low = int(space.start)
        return {"type": "integer", "minimum": low, "maximum": low + int(space.n) - 1}
    if isinstance(space, spaces.MultiBinary):
        bit = {"type": "integer", "minimum": 0, "maximum": 1}
        return {**nested(bit, space.shape), "x-space": "MultiBinary"}
    if isinstance(space, spaces.MultiDiscrete):
        return {**bounded(space.start, space.start + space.nvec - 1, "integer"), "x-space": "MultiDiscrete", "x-dtype": str(space.dtype)}
    if isinstance(space, spaces.Box):
        kind = "integer" if np.issubdtype(space.dtype, np.integer) else "number"
        return {**bounded(space.low, space.high, kind), "x-space": "Box", "x-dtype": str(space.dtype)}
    if isinstance(space, spaces.Dict):
        parts = {name: schema(part) for name, part in space.items()}
        return {"type": "object", "properties": parts, "required": list(parts), "x-space": "Dict"}
    if isinstance(space, spaces.Tuple):
        parts = [schema(part) for part in space]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts), "x-space": "Tuple"}
    if isinstance(space, spaces.Text):
        return {"type": "string", "minLength": space.min_length, "maxLength": space.max_length, "x-charset": "".join(space.character_list)}
    raise ValueError(f"the space {space} has no JSON form here")


def bounded(low, high, kind):
    """An array with bounds: one schema for all elements where those have the same, else one each."""
    low, high = np.asarray(low), np.asarray(high)
    if low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return nested(bound(low.flat[0], high.flat[0], kind), low.shape)
    if low.ndim == 0:
        return bound(low, high, kind)
    parts = [bounded(a, b, kind) for a, b in zip(low, high)]
    return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}


def bound(low, high, kind):
    """The schema of a number; infinite bounds are none."""
    to = int if kind == "integer" else float
    limits = {"minimum": low, "maximum": high}
    return {"type": kind, **{name: to(value) for name, value in limits.items() if np.isfinite(value)}}


def nested(item, shape):
    for size in reversed(shape):
        item = {"type": "array", "items": item, "minItems": int(size), "maxItems": int(size)}
    return item


def plain(value):
    """A value of a space, or whatever is in `info`, as JSON has it."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def read(space, value):
    """A JSON value as a member of a space."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or set(value) != set(space.spaces):
            raise ValueError(f"it needs {', '.join(space.spaces)}")
        return {name: read(part, value[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, list) or len(value) != len(space.spaces):
            raise ValueError(f"it needs a list of {len(space.spaces)}")
        return tuple(read(part, item) for part, item in zip(space, value))
    if isinstance(space, spaces.Text):
        return value
    if isinstance(space, spaces.Discrete):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("it needs an integer")
        return space.dtype.type(value)
    return np.asarray(value, dtype=space.dtype).reshape(space.shape)
