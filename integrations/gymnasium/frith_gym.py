"""Any environment of an A2E host as a `gymnasium.Env`.

    from frith_gym import FrithEnv
    env = FrithEnv("cartpole")                                # a host of its own: `frith stdio`
    env = FrithEnv("cartpole", tcp=("127.0.0.1", 7777), token="frith_…")
    env = FrithEnv("cartpole", unix="/path/to/a2e.sock", token="frith_…")

Needs `gymnasium` and nothing else; this file can be copied.
"""

import base64
import json
import socket
import string
import subprocess
import time
import uuid

import gymnasium
import numpy as np
from gymnasium import spaces

TEXT = string.printable


class A2eError(RuntimeError):
    """What a host answers instead of what was asked for."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.detail = error.get("code"), error.get("detail", {})


def space_of(schema):
    """The space that a JSON Schema describes."""
    named, kind = schema.get("x-space"), schema.get("type")
    if named == "Tuple":
        return spaces.Tuple([space_of(part) for part in schema["prefixItems"]])
    if named == "MultiBinary":
        shape = shape_of(schema)
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    if named == "MultiDiscrete":
        low, high = bounds_of(schema)
        dtype = np.dtype(schema.get("x-dtype", "int64"))
        return spaces.MultiDiscrete((high - low + 1).astype(dtype), start=low.astype(dtype), dtype=dtype)
    if "enum" in schema:
        return spaces.Discrete(len(schema["enum"]))
    if kind == "object":
        return spaces.Dict({name: space_of(part) for name, part in schema.get("properties", {}).items()})
    if kind == "integer" and named is None:
        low = schema.get("minimum", 0)
        return spaces.Discrete(schema.get("maximum", 2**31 - 1) - low + 1, start=low)
    if kind in ("integer", "number", "array"):
        low, high = bounds_of(schema)
        dtype = np.dtype(schema.get("x-dtype", "float64"))
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
    if kind == "string":
        charset = schema.get("x-charset", TEXT)
        return spaces.Text(schema.get("maxLength", 4096), min_length=schema.get("minLength", 0), charset=charset)
    raise ValueError(f"no space for the schema {schema}")


def shape_of(schema):
    if schema.get("type") != "array":
        return ()
    items = schema.get("items") or schema["prefixItems"][0]
    return (schema["minItems"], *shape_of(items))


def bounds_of(schema):
    """The least and the greatest value of each element of an array."""
    if schema.get("type") != "array":
        low, high = schema.get("minimum", -np.inf), schema.get("maximum", np.inf)
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    parts = schema.get("prefixItems") or [schema["items"]] * schema["minItems"]
    low, high = zip(*(bounds_of(part) for part in parts))
    return np.stack(low), np.stack(high)


def member(space, value):
    """A JSON value as a member of a space."""
    if isinstance(space, spaces.Dict):
        return {name: member(part, value[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(member(part, item) for part, item in zip(space, value))
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(value)
    if isinstance(space, spaces.Text):
        return value
    return np.asarray(value, dtype=space.dtype).reshape(space.shape)


def plain(value):
    """A member of a space as JSON has it."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


class Host:
    """A session with an A2E host: one question, one answer. What comes unasked is passed over."""

    def __init__(self, command=None, tcp=None, unix=None, token=""):
        self.child, self.socket = None, None
        if tcp or unix:
            self.socket = socket.create_connection(tcp) if tcp else socket.socket(socket.AF_UNIX)
            if unix:
                self.socket.connect(unix)
            else:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.read = self.write = self.socket.makefile("rwb")
        else:
            self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.read, self.write = self.child.stdout, self.child.stdin
        self.prefix, self.asked = uuid.uuid4().hex, 0
        hello = self.ask("handshake/req", agent_id="frith_gym", agent_version="1.0", agent_caps=["env"], auth_token=token)
        if not hello.get("ok") or not any(cap["enabled"] for cap in hello["accepted_caps"]):
            raise ConnectionError(f"the host does not let us use environments: {hello.get('reason') or hello['accepted_caps']}")

    def ask(self, kind, **members):
        self.asked += 1
        id = f"{self.prefix}-{self.asked}"
        message = {"a2e": "1.0", "version": "1.0", "type": kind, "id": id, "ts": time.time(), **members}
        self.write.write(json.dumps(message).encode() + b"\n")
        self.write.flush()
        for line in self.read:
            answer = json.loads(line)
            if answer.get("req_id") != id:
                continue
            if answer["type"] == "error":
                raise A2eError(answer)
            return answer
        raise ConnectionError("the host has closed the connection")

    def close(self):
        self.write.close()
        if self.socket:
            self.socket.close()
        if self.child:
            self.child.wait()
            self.child.stdout.close()


class FrithEnv(gymnasium.Env):
    """An environment of an A2E host. Each reset begins an episode and closes the one before."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 30}

    def __init__(self, name, command=("frith", "stdio"), tcp=None, unix=None, token="", options=None, render_mode=None):
        self.name, self.options, self.render_mode = name, dict(options or {}), render_mode
        self.host = Host(list(command), tcp, unix, token)
        space = self.host.ask("env/space/req", env_name=name)
        properties = space["action_space"].get("properties", {})
        if "action" not in properties:
            raise ValueError(f"actions of `{name}` have no single value `action`")
        self.action_space = space_of(properties["action"])
        state = space["state_schema"]
        self.is_single = list(state.get("properties", {})) == ["observation"]
        self.observation_space = space_of(state["properties"]["observation"] if self.is_single else state)
        self.episode = None

    def seen(self, obs):
        state = obs["state"]
        return member(self.observation_space, state["observation"] if self.is_single else state)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        self.end_episode()
        merged = {**self.options, **(options or {})}
        obs = self.host.ask("env/reset/req", env_name=self.name, seed=seed, options=merged)["obs"]
        self.episode = obs["episode_id"]
        return self.seen(obs), obs["metadata"].get("info", {})

    def step(self, action):
        obs = self.host.ask("env/step/req", episode_id=self.episode, action={"action": plain(action)})["obs"]
        metadata = obs["metadata"] or {}
        truncated = obs["truncated"]
        terminated = obs["done"] and (not truncated or metadata.get("terminated", False))
        return self.seen(obs), obs["reward"], terminated, truncated, metadata.get("info", {})

    def render(self):
        if self.render_mode is None:
            return None
        mode = "text" if self.render_mode == "ansi" else "rgb_array"
        shown = self.host.ask("env/render/req", episode_id=self.episode, mode=mode)["render"]
        if mode == "text" or shown is None:
            return shown
        pixels = np.frombuffer(base64.b64decode(shown["data"]), dtype=shown["dtype"])
        return pixels.reshape(shown["shape"])

    def end_episode(self):
        if self.episode is not None:
            try:
                self.host.ask("env/close/req", episode_id=self.episode)
            except A2eError:
                pass  # The host has closed it by itself.
            self.episode = None

    def close(self):
        if self.host is not None:
            self.end_episode()
            self.host.close()
            self.host = None
