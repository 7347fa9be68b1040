#!/usr/bin/env python3
"""An A2E host on standard input and output whose environments are those of Gymnasium.

Frith mounts it (docs/environments.md):

    plugins:
      - {name: gymnasium, type: remote_plugin, command: [python3, gymnasium_host.py, CartPole-v1, Taxi-v4]}

The words after its name are the environments that agents may use; without any, all that are
registered. With --kwargs agents may also pass arguments to `gymnasium.make`.

A state is an object: that of a Dict space as it is, any other as {"observation": value}; an action
is {"action": value}. Values are plain JSON: arrays are nested lists, Discrete is an integer.
"""

import argparse
import base64
import json
import struct
import sys
import time
import uuid
import zlib

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium_spaces import plain, read, schema

MAX_EPISODES = 4096
MAX_VECTOR = 4096
MAX_LISTED = 10_000
MAX_STEPS = 2**31 - 1


class Refused(Exception):
    """Something that cannot be done, with a code and a reason for programs."""

    def __init__(self, code, reason, text):
        super().__init__(text)
        self.code, self.reason = code, reason


def action_of(space, action):
    if "action" not in action:
        raise Refused("schema_violation", "not_taken", 'an action is {"action": VALUE}')
    try:
        value = read(space, action["action"])
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused("schema_violation", "not_taken", f"the action does not fit {space}: {error}") from None
    if not space.contains(value):
        raise Refused("schema_violation", "not_taken", f"the action does not fit {space}")
    return value


def steps_of(options):
    """Takes `max_steps` out of the options: it replaces the limit with which an environment is registered."""
    steps = options.pop("max_steps", None)
    if steps is None:
        return {}
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS:
        raise Refused("schema_violation", "not_taken", f"`options.max_steps` is from 1 to {MAX_STEPS}")
    return {"max_episode_steps": steps}


def state_of(space, observation):
    value = plain(observation)
    return value if isinstance(space, spaces.Dict) else {"observation": value}


def png(pixels):
    """An array of pixels as a PNG file."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels, dtype=np.uint8))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def picture(pixels, mode):
    """Pixels as they are sent."""
    if mode == "screenshot":
        return base64.b64encode(png(pixels)).decode()
    data = base64.b64encode(np.ascontiguousarray(pixels, dtype=np.uint8).tobytes()).decode()
    return {"shape": list(pixels.shape), "dtype": "uint8", "data": data}


class Episode:
    """One run of an environment, or one part of a vector of them."""

    def __init__(self, name, env, vector=None, index=0):
        self.id = f"g-{uuid.uuid4().hex[:16]}"
        self.name, self.env, self.vector, self.index = name, env, vector, index
        self.started = time.time()
        self.steps, self.total, self.terminated, self.truncated = 0, 0.0, False, False
        self.state = {}

    def observation(self, reward, created_at, metadata):
        if self.terminated and self.truncated:
            metadata = {**metadata, "terminated": True}
        return {
            "episode_id": self.id, "step_num": self.steps, "state": self.state,
            "done": self.terminated or self.truncated, "truncated": self.truncated,
            "reward": reward, "created_at": created_at, "metadata": metadata,
        }

    def step(self, action):
        if self.vector is not None:
            text = "the episode is part of a vector; env/batch_step/req steps all of it at once"
            raise Refused("runtime_error", "part_of_vector", text)
        if self.terminated or self.truncated:
            raise Refused("runtime_error", "episode_over", f"the episode `{self.id}` is over; env/reset/req begins another")
        value = action_of(self.env.action_space, action)
        observation, reward, self.terminated, self.truncated, info = self.env.step(value)
        return self.took(state_of(self.env.observation_space, observation), reward, info)

    def drawn(self, mode):
        """It in one of Gymnasium's modes, whichever it was made with; nothing if it does not have that one."""
        if self.vector is not None or mode not in self.env.metadata.get("render_modes", []):
            return None
        base = self.env.unwrapped
        before, base.render_mode = base.render_mode, mode
        try:
            return self.env.render()
        finally:
            base.render_mode = before

    def took(self, state, reward, info):
        # JSON has no form for what is not finite.
        reward = plain(float(reward))
        self.state, self.steps, self.total = state, self.steps + 1, self.total + (reward or 0.0)
        return self.observation(reward, time.time(), {"info": plain(info)} if info else {})


class Vector:
    """Environments that are stepped together; one that has ended begins anew at the next step."""

    def __init__(self, name, env):
        self.env = env
        self.episodes = [Episode(name, None, self, index) for index in range(env.num_envs)]

    def begin(self, seed, options):
        observations, _ = self.env.reset(seed=seed, options=options)
        for episode, state in zip(self.episodes, self.states(observations)):
            episode.state = state

    def states(self, observations):
        space = self.env.single_observation_space
        parts = gymnasium.vector.utils.iterate(self.env.observation_space, observations)
        return [state_of(space, part) for part in parts]

    def step(self, actions):
        space = self.env.single_action_space
        values = [action_of(space, action) for action in actions]
        out = gymnasium.vector.utils.create_empty_array(space, n=len(values))
        batch = gymnasium.vector.utils.concatenate(space, values, out)
        observations, rewards, terminated, truncated, _ = self.env.step(batch)
        results = []
        for episode, state, reward, ended, cut in zip(self.episodes, self.states(observations), rewards, terminated, truncated):
            begins = episode.terminated or episode.truncated
            episode.terminated, episode.truncated = bool(ended), bool(cut)
            if begins:
                episode.steps, episode.total = -1, 0.0
            observation = episode.took(state, reward, {})
            if begins:
                observation["metadata"] = {"autoreset": True}
            results.append(observation)
        return results


class Host:
    def __init__(self, allowed, with_kwargs):
        self.allowed, self.with_kwargs = allowed, with_kwargs
        self.episodes = {}

    def names(self):
        return self.allowed or sorted(gymnasium.registry)

    def known(self, name):
        # A name with a colon would import a module.
        if ":" in name or name not in self.names():
            raise Refused("runtime_error", "unknown_environment", f"there is no environment `{name[:64]}` here")
        return name

    def episode(self, id):
        if id not in self.episodes:
            raise Refused("runtime_error", "unknown_episode", f"there is no episode `{id[:64]}` here")
        return self.episodes[id]

    def make(self, name, options, limit):
        kwargs = options.pop("kwargs", {})
        if kwargs and not self.with_kwargs:
            raise Refused("schema_violation", "not_taken", "this host takes no `options.kwargs`; its operator can allow them with --kwargs")
        mode = options.pop("render_mode", None)
        modes = gymnasium.spec(name).kwargs.get("render_mode")
        return gymnasium.make(name, render_mode=mode or modes or self.render_mode(name), **limit, **kwargs)

    def render_mode(self, name):
        """Text where an environment has it, since that needs no further package; else pixels."""
        entry = gymnasium.spec(name).entry_point
        entry = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
        modes = getattr(entry, "metadata", {}).get("render_modes", [])
        return next((mode for mode in ("ansi", "rgb_array") if mode in modes), None)

    def reset(self, m):
        name, seed, options = self.known(m["env_name"]), m.get("seed"), dict(m.get("options") or {})
        # The host that has mounted this one knows of these.
        for common in ("push", "max_seconds"):
            options.pop(common, None)
        vector = options.pop("vector", None)
        if len(self.episodes) >= MAX_EPISODES:
            raise Refused("runtime_error", "episode_limit", "there are too many episodes; close one with env/close/req")
        limit = steps_of(options)
        if vector is not None:
            return self.reset_vector(name, seed, options, vector, limit)
        env = self.make(name, options, limit)
        episode = Episode(name, env)
        observation, info = env.reset(seed=seed, options=options or None)
        episode.state = state_of(env.observation_space, observation)
        self.episodes[episode.id] = episode
        obs = episode.observation(0.0, episode.started, {"info": plain(info)} if info else {})
        return {"type": "env/reset/resp", "obs": obs}

    def reset_vector(self, name, seed, options, vector, limit):
        count = vector.get("num_envs")
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_VECTOR:
            raise Refused("schema_violation", "not_taken", f"`options.vector.num_envs` is from 1 to {MAX_VECTOR}")
        mode = vector.get("mode", "sync")
        if mode not in ("sync", "vector_entry_point"):
            raise Refused("schema_violation", "not_taken", "`options.vector.mode` is sync or vector_entry_point")
        made = Vector(name, gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode, **limit))
        made.begin(seed, options or None)
        self.episodes.update({episode.id: episode for episode in made.episodes})
        first = made.episodes[0]
        obs = first.observation(0.0, first.started, {})
        obs["episodes"] = [{"episode_id": it.id, "state": it.state} for it in made.episodes]
        return {"type": "env/reset/resp", "obs": obs}

    def step(self, m):
        return {"type": "env/step/resp", "obs": self.episode(m["episode_id"]).step(m["action"])}

    def batch_step(self, m):
        ids, actions = m["episode_ids"], m["actions"]
        if len(ids) != len(actions) or len(set(ids)) != len(ids):
            raise Refused("schema_violation", "not_taken", "there must be as many `actions` as `episode_ids`, each once")
        episodes = [self.episode(id) for id in ids]
        given = dict(zip(ids, actions))
        seen = {}
        for vector in {episode.vector for episode in episodes if episode.vector is not None}:
            missing = [part.id for part in vector.episodes if part.id not in given]
            if missing:
                raise Refused("runtime_error", "part_of_vector", f"a vector is stepped as a whole; `{missing[0]}` is missing")
            results = vector.step([given[part.id] for part in vector.episodes])
            seen.update(zip((part.id for part in vector.episodes), results))
        for episode in episodes:
            if episode.vector is None:
                seen[episode.id] = self.step_one(episode, given[episode.id])
        base = {"a2e": "1.0", "version": "1.0", "type": "env/step/resp", "ts": time.time(), "req_id": m["id"]}
        results = [{**base, "id": f"{m['id']}.{index}", "obs": seen[id]} for index, id in enumerate(ids)]
        return {"type": "env/batch_step/resp", "results": results}

    def step_one(self, episode, action):
        try:
            return episode.step(action)
        except Refused as refused:
            error = {"code": refused.code, "message": str(refused), "detail": {"reason": refused.reason}}
            return episode.observation(0.0, time.time(), {"error": error})

    def observe(self, m):
        episode = self.episode(m["episode_id"])
        return {"type": "env/observe/resp", "obs": episode.observation(0.0, episode.started, {})}

    def close(self, m):
        episode = self.episode(m["episode_id"])
        whole = [episode] if episode.vector is None else episode.vector.episodes
        (episode.env if episode.vector is None else episode.vector.env).close()
        for part in whole:
            self.episodes.pop(part.id, None)
        return {"type": "env/close/resp", "closed": True}

    def space(self, m):
        env = gymnasium.make(self.known(m["env_name"]))
        action, state = schema(env.action_space), schema(env.observation_space)
        if not isinstance(env.observation_space, spaces.Dict):
            state = {"type": "object", "properties": {"observation": state}, "required": ["observation"]}
        env.close()
        action = {"type": "object", "properties": {"action": action}, "required": ["action"]}
        return {"type": "env/space/resp", "action_space": action, "state_schema": state}

    def render(self, m):
        episode, mode = self.episode(m["episode_id"]), m.get("mode") or "screenshot"
        if mode == "json":
            return {"type": "env/render/resp", "render": episode.state}
        shown = None
        if mode == "text":
            frame = episode.drawn("ansi")
            shown = frame if isinstance(frame, str) else json.dumps(episode.state)
        elif mode in ("screenshot", "rgb_array"):
            pixels = episode.drawn("rgb_array")
            pixels = pixels if isinstance(pixels, np.ndarray) else None
            shown = None if pixels is None else picture(pixels, mode)
        return {"type": "env/render/resp", "render": shown}

    def plan(self, m):
        if m.get("episode_id"):
            self.episode(m["episode_id"])
        return {"type": "env/plan/resp", "suggested_actions": []}

    def exp_list(self, m):
        wanted, limit = m.get("episode_id") or "", m.get("limit", 100)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LISTED:
            raise Refused("schema_violation", "not_taken", f"`limit` must be from 1 to {MAX_LISTED}")
        found = [self.episode(wanted)] if wanted else list(self.episodes.values())
        listed = [
            {
                "episode_id": it.id, "env_name": it.name, "started_at": it.started, "steps": it.steps, "total_reward": it.total,
                "done": it.terminated or it.truncated, "truncated": it.truncated, "open": True,
            }
            for it in found[-limit:]
        ]
        return {"type": "env/exp/list/resp", "episodes": listed}

    def list(self, _):
        return {"type": "env/list/resp", "environments": [
            {"name": name, "description": "Gymnasium", "max_steps": gymnasium.spec(name).max_episode_steps} for name in self.names()
        ]}

    def handshake(self, m):
        caps = [{"capability": c, "enabled": c == "env", "metadata": {"name": "gymnasium"}} for c in m.get("agent_caps", [])]
        return {"type": "handshake/resp", "session_id": uuid.uuid4().hex, "accepted_caps": caps, "max_parallel": 1, "ok": True, "reason": ""}

    SERVED = {
        "handshake/req": handshake, "env/reset/req": reset, "env/step/req": step, "env/batch_step/req": batch_step,
        "env/observe/req": observe, "env/close/req": close, "env/space/req": space, "env/render/req": render,
        "env/plan/req": plan, "env/exp/list/req": exp_list, "env/list/req": list,
        "ping": lambda self, m: {"type": "pong"},
    }

    def answer(self, m):
        serve = self.SERVED.get(m.get("type"))
        try:
            if serve is None:
                raise Refused("invalid_message", "unserved", f"this host does not serve `{str(m.get('type'))[:64]}`")
            return serve(self, m)
        except Refused as refused:
            code, reason, text = refused.code, refused.reason, str(refused)
        except KeyError as missing:
            code, reason, text = "schema_violation", "not_taken", f"{missing} is missing"
        except Exception as error:  # Whatever an environment raises is that request's failure.
            code, reason, text = "runtime_error", "environment_failed", f"{type(error).__name__}: {error}"
        return {"type": "error", "code": code, "message": text[:2000], "retryable": False, "detail": {"reason": reason}, "capability_name": "env"}

    def serve(self, lines, out):
        for line in lines:
            m = json.loads(line)
            if m.get("type") == "shutdown":
                break
            base = {"a2e": "1.0", "version": "1.0", "id": uuid.uuid4().hex, "ts": time.time(), "req_id": m.get("id", "")}
            out.write(json.dumps({**base, **self.answer(m)}, separators=(",", ":")) + "\n")
            out.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environments", nargs="*", help="the environments that agents may use; without any, all")
    parser.add_argument("--kwargs", action="store_true", help="agents may pass arguments to gymnasium.make")
    arguments = parser.parse_args()
    # What an environment prints must not end up among the messages.
    wire, sys.stdout = sys.stdout, sys.stderr
    Host(arguments.environments, arguments.kwargs).serve(sys.stdin, wire)


if __name__ == "__main__":
    main()
