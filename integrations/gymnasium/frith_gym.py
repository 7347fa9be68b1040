"""Any environment of an A2E host as a `gymnasium.Env`.

    from frith_gym import FrithEnv
    env = FrithEnv("cartpole")                                # a host of its own: `frith stdio`
    env = FrithEnv("cartpole", tcp=("127.0.0.1", 7777), token="frith_…")
    env = FrithEnv("cartpole", unix="/path/to/a2e.sock", token="frith_…")

`env.state` is the state as the host sent it. A schema that no space of Gymnasium says is a `Json`: the value as text. An action that the environment
does not take, although its space has it (a link that a page does not have), changes nothing and has
`info["error"]`. A dict given to `step` where the space is none goes to the host as it is:
`env.step({"type": "open", "url": "https://…"})`.

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


class AnyText(spaces.Text):
    """Text of any characters; what is drawn from it can be printed."""

    def contains(self, x):
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length


class Json(AnyText):
    """Whatever JSON can say, as text."""

    def __init__(self):
        super().__init__(2**31 - 1, min_length=1, charset=TEXT)

    def sample(self, mask=None, probability=None):
        return "null"


class Choice(spaces.Discrete):
    """One of some values, by its place among them."""

    def __init__(self, values):
        super().__init__(len(values))
        self.values = list(values)


class Members(spaces.Box):
    """An array of the members of an object that are all numbers."""

    def __init__(self, names, low, high, dtype):
        super().__init__(low, high, dtype=dtype)
        self.names = list(names)


def space_of(schema):
    """The space that a JSON Schema describes."""
    named, kind = schema.get("x-space"), schema.get("type")
    if named == "Box" and kind == "object":
        names = schema["required"]
        low, high = zip(*(bounds_of(schema["properties"][name]) for name in names))
        dtype = np.dtype(schema.get("x-dtype", "float64"))
        return Members(names, np.stack(low).astype(dtype), np.stack(high).astype(dtype), dtype)
    if named == "Tuple":
        return spaces.Tuple([space_of(part) for part in schema["prefixItems"]])
    if named == "MultiBinary":
        shape = shape_of(schema)
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    if named == "MultiDiscrete":
        low, high = bounds_of(schema)
        dtype = np.dtype(schema.get("x-dtype", "int64"))
        return spaces.MultiDiscrete((high - low + 1).astype(dtype), start=low.astype(dtype), dtype=dtype)
    if "enum" in schema or kind == "boolean":
        return Choice(schema.get("enum", [False, True]))
    if kind == "object" and "properties" in schema:
        # What may be missing cannot be counted on.
        parts = schema["properties"]
        return spaces.Dict({name: space_of(parts[name]) for name in schema.get("required", parts) if name in parts})
    if kind == "integer" and named is None:
        return integers(schema)
    if kind == "array" and named is None and not is_fixed(schema):
        return spaces.Sequence(space_of(schema["items"])) if "items" in schema else Json()
    if kind in ("integer", "number", "array"):
        low, high = bounds_of(schema)
        dtype = np.dtype(schema.get("x-dtype", "float64"))
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
    if kind == "string":
        of = spaces.Text if "x-charset" in schema else AnyText
        return of(schema.get("maxLength", 4096), min_length=schema.get("minLength", 0), charset=schema.get("x-charset", TEXT))
    return Json()


def integers(schema):
    """A choice if there is a least and a greatest, else all that 64 bits can say."""
    if "minimum" in schema and "maximum" in schema:
        return spaces.Discrete(schema["maximum"] - schema["minimum"] + 1, start=schema["minimum"])
    all_of_them = np.iinfo(np.int64)
    return spaces.Box(schema.get("minimum", all_of_them.min), schema.get("maximum", all_of_them.max), (), np.int64)


def is_fixed(schema):
    """Whether an array has so many numbers, and so do the arrays in it."""
    if schema.get("type") != "array":
        return schema.get("type") in ("integer", "number")
    parts = schema.get("prefixItems") or [schema.get("items", {})]
    return "minItems" in schema and schema["minItems"] == schema.get("maxItems") and all(map(is_fixed, parts))


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
    if isinstance(space, Members):
        return np.asarray([value[name] for name in space.names], dtype=space.dtype)
    if isinstance(space, spaces.Dict):
        return {name: member(part, value[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(member(part, item) for part, item in zip(space, value))
    if isinstance(space, spaces.Sequence):
        return tuple(member(space.feature_space, item) for item in value)
    if isinstance(space, Choice):
        return space.dtype.type(space.values.index(value))
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(value)
    if isinstance(space, Json):
        return json.dumps(value)
    if isinstance(space, spaces.Text):
        return value
    return np.asarray(value, dtype=space.dtype).reshape(space.shape)


def plain(space, value):
    """A member of a space as JSON has it."""
    if isinstance(space, Members):
        return dict(zip(space.names, value.tolist()))
    if isinstance(space, spaces.Dict):
        return {name: plain(part, value[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return [plain(part, item) for part, item in zip(space, value)]
    if isinstance(space, spaces.Sequence):
        return [plain(space.feature_space, item) for item in value]
    if isinstance(space, Choice):
        return space.values[int(value)]
    if isinstance(space, Json):
        return json.loads(value)
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
        action, state = space["action_space"], space["state_schema"]
        self.has_value = "action" in action.get("properties", {})
        self.action_space = space_of(action["properties"]["action"] if self.has_value else action)
        self.is_single = list(state.get("properties", {})) == ["observation"]
        self.observation_space = space_of(state["properties"]["observation"] if self.is_single else state)
        self.episode, self.state = None, None

    def seen(self, obs):
        state = self.state = obs["state"]
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

    def meant(self, action):
        """What the host is told."""
        if isinstance(action, dict) and not isinstance(self.action_space, spaces.Dict):
            return action
        value = plain(self.action_space, action)
        return {"action": value} if self.has_value else value

    def taken(self, action):
        """What comes of an action; what is not taken leaves all as it was."""
        try:
            return self.host.ask("env/step/req", episode_id=self.episode, action=self.meant(action))["obs"]
        except A2eError as error:
            if error.detail.get("reason") != "not_taken" or not self.action_space.contains(action):
                raise
            obs = self.host.ask("env/observe/req", episode_id=self.episode)["obs"]
            return {**obs, "metadata": {"info": {"error": str(error)}}}

    def step(self, action):
        obs = self.taken(action)
        metadata = obs["metadata"] or {}
        truncated = obs["truncated"]
        terminated = obs["done"] and (not truncated or metadata.get("terminated", False))
        # A reward that is no finite number has no form in JSON.
        reward = float("nan") if obs["reward"] is None else obs["reward"]
        return self.seen(obs), reward, terminated, truncated, metadata.get("info", {})

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
