"""Our environments and Gymnasium's, held against each other.

    gymnasium_env.py WHAT HOST...      HOST is the command of an A2E host, such as `frith stdio`

WHAT is one of: spaces, physics, checker, others, pictures, mounted, vectors, limits, host.
"""

import base64
import json
import random
import struct
import sys
import warnings
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "integrations" / "gymnasium"))

import frith_gym
import gymnasium
import gymnasium_spaces
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

MOUNTED = ["CartPole-v1", "FrozenLake-v1", "Taxi-v4", "MountainCarContinuous-v0"]


def check_spaces(_):
    """A space, its schema, and the space of that schema; and members of it there and back."""
    one = np.array([-1, -np.inf, 0], dtype=np.float64)
    two = np.array([1, 2, np.inf], dtype=np.float64)
    for space in [
        spaces.Discrete(5), spaces.Discrete(3, start=-1), spaces.Box(-1, 1, (3,), np.float32), spaces.Box(one, two, dtype=np.float64),
        spaces.Box(0, 255, (4, 2, 3), np.uint8), spaces.Box(-5, 5, (), np.float32), spaces.Box(0, 1, (1,), np.float32),
        spaces.MultiDiscrete([2, 3, 4]), spaces.MultiDiscrete([[2, 3], [4, 5]]), spaces.MultiDiscrete([3, 3], start=[1, 2]),
        spaces.MultiBinary(4), spaces.MultiBinary((2, 3)), spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (2,))),
        spaces.Tuple((spaces.Discrete(2), spaces.Dict(x=spaces.MultiBinary(2)))), spaces.Text(5),
    ]:
        back = frith_gym.space_of(json.loads(json.dumps(gymnasium_spaces.schema(space))))
        assert back == space, (back, space)
        space.seed(1)
        for _ in range(20):
            value = space.sample()
            sent = json.loads(json.dumps(gymnasium_spaces.plain(value)))
            seen = frith_gym.member(back, sent)
            assert back.contains(seen), (space, value, seen)
            returned = json.loads(json.dumps(frith_gym.plain(back, seen)))
            assert space.contains(gymnasium_spaces.read(space, returned)), (space, value)


def pushed(state):
    """Keeps the pole upright and the cart near the middle."""
    x, x_dot, theta, theta_dot = state
    return int(theta + 0.5 * theta_dot + 0.02 * x + 0.05 * x_dot > 0)


def check_physics(command):
    """From the same state, 500 steps of `cartpole` are those of CartPole-v1, within 1e-9."""
    ours = frith_gym.FrithEnv("cartpole", command=command, options={"max_steps": 1000})
    theirs = gymnasium.make("CartPole-v1").unwrapped
    assert ours.observation_space == theirs.observation_space, ours.observation_space
    assert ours.action_space == theirs.action_space, ours.action_space
    chance, longest = random.Random(7), 0
    for run in range(10):
        theirs.reset(seed=run)
        start = [chance.uniform(-0.04, 0.04) for _ in range(4)] if run % 2 else theirs.state.tolist()
        theirs.state = np.array(start)
        seen, _ = ours.reset(seed=run, options={"state": start})
        for step in range(500):
            # Some runs lose their balance.
            action = chance.randrange(2) if run % 5 == 4 else pushed(theirs.state)
            expected_seen, reward, terminated, _, _ = theirs.step(action)
            seen, our_reward, ended, _, _ = ours.step(np.int64(action))
            for name, expected in zip(("x", "x_dot", "theta", "theta_dot"), theirs.state):
                assert abs(ours.state[name] - expected) <= 1e-9, (run, step, name, ours.state, theirs.state)
            assert seen.dtype == expected_seen.dtype and np.allclose(seen, expected_seen, atol=1e-6), (run, step, seen)
            assert (our_reward, ended) == (reward, terminated), (run, step)
            longest = max(longest, step + 1)
            if terminated:
                break
    assert longest == 500, longest
    ours.close()


def check_checker(command):
    """Gymnasium's own checker takes ours for one of its own."""
    for name in ["counter", "gridworld", "cartpole"]:
        for mode in [None, "ansi", "rgb_array"]:
            env = frith_gym.FrithEnv(name, command=command, render_mode=mode)
            check_env(env, skip_render_check=False)
            env.close()


def check_others(command):
    """Environments whose states are texts, lists and objects are ones of Gymnasium too."""
    schema = {
        "type": "object", "required": ["kind", "many", "free", "on", "big"],
        "properties": {
            "kind": {"enum": ["a", "b"]}, "many": {"type": "array", "items": {"type": "string"}}, "free": {"type": "object"},
            "on": {"type": "boolean"}, "big": {"type": "integer"}, "perhaps": {"type": "integer"},
        },
    }
    space, value = frith_gym.space_of(schema), {"kind": "b", "many": ["é", ""], "free": {"x": None}, "on": True, "big": -(2**62)}
    seen = frith_gym.member(space, value)
    assert space.contains(seen) and frith_gym.plain(space, seen) == value, seen
    assert space.contains(space.sample())
    # Without a page no link is there; each step is refused, and changes nothing.
    env = frith_gym.FrithEnv("http", command=command, render_mode="ansi")
    check_env(env, skip_render_check=False)
    first, _ = env.reset(seed=1)
    seen, reward, terminated, truncated, info = env.step(3)
    assert (seen, reward, terminated, truncated) == (first, 0.0, False, False) and "no link" in info["error"], info
    try:
        env.step({"type": "fly"})
        raise AssertionError("an action that the space does not have was taken")
    except frith_gym.A2eError as error:
        assert error.code == "schema_violation", error
    env.close()
    env = frith_gym.FrithEnv("terminal", command=command, options={"rows": 6, "cols": 30})
    seen, _ = env.reset(seed=1)
    assert env.observation_space.contains(seen) and env.action_space.contains("ls\n")
    for action in ["printf 'h\\303\\251\\n'\n", {"command": "printf 'h\\303\\251\\n'"}]:
        seen, *_ = env.step(action)
        assert env.observation_space.contains(seen), seen
    assert "hé" in seen["screen"], seen
    env.close()


def check_pictures(command):
    """A screenshot is a PNG that others can read, with the pixels of `rgb_array`."""
    for name in ["gridworld", "cartpole"]:
        env = frith_gym.FrithEnv(name, command=command, render_mode="rgb_array")
        env.reset(seed=3)
        for _ in range(3):
            pixels = env.render()
            shot = env.host.ask("env/render/req", episode_id=env.episode, mode="screenshot")["render"]
            assert np.array_equal(unpacked(base64.b64decode(shot)), pixels), name
            assert len({tuple(pixel) for row in pixels for pixel in row}) > 2, name
            env.step(env.action_space.sample())
        env.close()


def unpacked(file):
    """The pixels of a PNG of the kind that is written."""
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(file):
        (length,) = struct.unpack(">I", file[at : at + 4])
        kind, content = file[at + 4 : at + 8], file[at + 8 : at + 8 + length]
        assert struct.unpack(">I", file[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + content),)
        chunks[kind], at = content, at + 12 + length
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 2) and b"IEND" in chunks
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(height, 1 + 3 * width)
    pixels = rows[:, 1:]
    if (rows[:, 0] == 2).all():
        pixels = np.cumsum(pixels, axis=0, dtype=np.uint8)
    else:
        assert (rows[:, 0] == 0).all()
    return pixels.reshape(height, width, 3)


def check_mounted(command):
    """Environments of Gymnasium behind our host are those of Gymnasium in process."""
    for name in MOUNTED:
        ours, theirs = frith_gym.FrithEnv(name, command=command), gymnasium.make(name)
        assert (ours.action_space, ours.observation_space) == (theirs.action_space, theirs.observation_space)
        for seed in range(3):
            (seen, _), (expected, _) = ours.reset(seed=seed), theirs.reset(seed=seed)
            assert np.array_equal(seen, expected), name
            theirs.action_space.seed(seed)
            for _ in range(200):
                action = theirs.action_space.sample()
                got, wanted = ours.step(action), theirs.step(action)
                assert np.array_equal(got[0], wanted[0]) and got[1:4] == wanted[1:4], (name, got, wanted)
                if wanted[2] or wanted[3]:
                    break
        check_env(ours, skip_render_check=True)
        shown(name, command)
        refused(ours, {"action": "fast"}, "schema_violation")
        ours.close()
    env = frith_gym.FrithEnv("counter", command=command)
    env.reset(seed=1)
    refused(env, {"type": "fly"}, "schema_violation")
    for name in ["nowhere", "os:CartPole-v1"]:
        try:
            env.host.ask("env/reset/req", env_name=name)
            raise AssertionError(name)
        except frith_gym.A2eError as error:
            assert error.detail["reason"] == "unknown_environment", error
    listed = {it["name"] for it in env.host.ask("env/list/req")["environments"]}
    assert {"counter", *MOUNTED} <= listed, listed
    env.close()


def shown(name, command):
    """Text where Gymnasium has it, and else the state; pixels, and the same as a file."""
    modes = gymnasium.make(name).metadata["render_modes"]
    for mode in ["rgb_array", "ansi"]:
        ours = frith_gym.FrithEnv(name, command=command, render_mode=mode)
        check_env(ours, skip_render_check=False)
        theirs = gymnasium.make(name, render_mode=mode) if mode in modes else None
        for env in filter(None, [ours, theirs]):
            env.reset(seed=4)
            env.action_space.seed(4)
            env.step(env.action_space.sample())
        frame = ours.render()
        if mode == "ansi":
            assert frame == (theirs.render() if theirs else json.dumps(state_of(ours))), (name, frame)
        else:
            assert np.array_equal(frame, theirs.render()), name
            shot = ours.host.ask("env/render/req", episode_id=ours.episode, mode="screenshot")["render"]
            assert np.array_equal(unpacked(base64.b64decode(shot)), frame), name
        ours.close()


def state_of(env):
    return env.host.ask("env/render/req", episode_id=env.episode, mode="json")["render"]


def refused(env, action, code):
    env.reset(seed=1)
    try:
        env.host.ask("env/step/req", episode_id=env.episode, action=action)
        raise AssertionError(f"{action} was taken")
    except frith_gym.A2eError as error:
        assert error.code == code, error


def check_vectors(command):
    """A vector of environments behind `batch_step` is Gymnasium's."""
    env = frith_gym.FrithEnv("counter", command=command)
    for name, mode in [*((name, "sync") for name in MOUNTED), ("CartPole-v1", "vector_entry_point")]:
        beside(env.host, name, mode)
    env.close()


def check_limits(command):
    """`max_steps` replaces the registered limit, above it too and in vectors; lists have a limit."""
    env = frith_gym.FrithEnv("counter", command=command)
    host = env.host
    # Registered with 200 steps; nothing but those ends it.
    name, stay = "MountainCar-v0", {"action": 1}

    def length(options):
        first = host.ask("env/reset/req", env_name=name, seed=1, options=options)["obs"]
        ids = [it["episode_id"] for it in first.get("episodes", [first])]
        for step in range(1, 1000):
            answer = host.ask("env/batch_step/req", episode_ids=ids, actions=[stay] * len(ids))
            if answer["results"][0]["obs"]["truncated"]:
                return step
        raise AssertionError(f"{options} had no end")

    assert length({}) == 200
    for steps in [3, 250]:
        assert length({"max_steps": steps}) == steps
        assert length({"max_steps": steps, "vector": {"num_envs": 2}}) == steps
    for request in [
        {"kind": "env/reset/req", "env_name": name, "options": {"max_steps": 0}},
        {"kind": "env/reset/req", "env_name": name, "options": {"max_steps": "many"}},
    ]:
        try:
            host.ask(**request)
            raise AssertionError(f"{request} was taken")
        except frith_gym.A2eError as error:
            assert error.code == "schema_violation", error
    env.close()


def check_host(_):
    """The host alone: how many episodes it lists, and a reward that JSON has no form for."""
    host_file = Path(__file__).parent.parent / "integrations" / "gymnasium" / "gymnasium_host.py"
    source = (
        "import runpy, sys, gymnasium\n"
        "class Odd(gymnasium.Env):\n"
        "    action_space = observation_space = gymnasium.spaces.Discrete(2)\n"
        "    def __init__(self, render_mode=None): pass\n"
        "    def reset(self, **_): return 0, {}\n"
        "    def step(self, _): return 0, float('nan'), False, False, {}\n"
        "gymnasium.register('Odd-v0', entry_point=Odd)\n"
        f"sys.argv = ['host', 'Odd-v0']; sys.path.insert(0, {str(host_file.parent)!r})\n"
        f"runpy.run_path({str(host_file)!r}, run_name='__main__')\n"
    )
    host = frith_gym.Host([sys.executable, "-W", "ignore", "-c", source])
    episodes = [host.ask("env/reset/req", env_name="Odd-v0")["obs"]["episode_id"] for _ in range(3)]
    obs = host.ask("env/step/req", episode_id=episodes[0], action={"action": 0})["obs"]
    assert obs["reward"] is None, obs
    listed = host.ask("env/exp/list/req", limit=2)["episodes"]
    assert [it["episode_id"] for it in listed] == episodes[1:], listed
    assert host.ask("env/exp/list/req")["episodes"][0]["total_reward"] == 0.0
    for limit in [0, -1, 10_001, "all"]:
        try:
            host.ask("env/exp/list/req", limit=limit)
            raise AssertionError(f"{limit} was taken")
        except frith_gym.A2eError as error:
            assert error.code == "schema_violation", error
    host.close()


def beside(host, name, mode, count=8):
    options = {"vector": {"num_envs": count, "mode": mode}}
    first = host.ask("env/reset/req", env_name=name, seed=5, options=options)["obs"]
    theirs = gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode)
    expected, _ = theirs.reset(seed=5)
    episodes = first["episodes"]
    ids = [it["episode_id"] for it in episodes]
    assert np.array_equal([it["state"]["observation"] for it in episodes], expected)
    theirs.action_space.seed(5)
    restarts = 0
    # As many as cut all of them off but the slowest.
    for _ in range(210):
        actions = theirs.action_space.sample()
        sent = [{"action": action} for action in actions.tolist()]
        # In another order than they were begun in.
        answer = host.ask("env/batch_step/req", episode_ids=ids[::-1], actions=sent[::-1])
        seen = [result["obs"] for result in answer["results"]][::-1]
        assert [it["episode_id"] for it in seen] == ids
        expected, rewards, terminated, truncated, _ = theirs.step(actions)
        states = np.array([it["state"]["observation"] for it in seen], dtype=expected.dtype)
        assert np.array_equal(states, expected), name
        assert [it["reward"] for it in seen] == rewards.tolist()
        assert [it["done"] for it in seen] == (terminated | truncated).tolist()
        restarts += sum(it["metadata"].get("autoreset", False) for it in seen)
    assert restarts > 0 or name.startswith("MountainCar"), name
    only = sent[0]
    for request in [
        {"kind": "env/step/req", "episode_id": ids[0], "action": only},
        {"kind": "env/batch_step/req", "episode_ids": ids[1:], "actions": [only] * (count - 1)},
    ]:
        try:
            host.ask(**request)
            raise AssertionError("a part of a vector was stepped alone")
        except frith_gym.A2eError as error:
            assert error.detail["reason"] == "part_of_vector", error
    host.ask("env/close/req", episode_id=ids[3])
    theirs.close()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    what, *command = sys.argv[1:]
    globals()[f"check_{what}"](command)
