"""The Atari 2600 games of the Arcade Learning Environment, with the paper's preprocessing. Needs the extra `atari`.

An action lasts four frames. Its picture is the pixelwise maximum of the last two frames, grey and resized. An observation is
a stack of four pictures, `[size, size, stack]`. An episode starts with up to 30 no-op frames. Rewards are the game's scores,
unclipped. Losing a life does not end the episode. All 18 actions are available, and actions are not sticky. After 30 minutes
(108,000 frames without the no-ops) the episode is truncated and bootstraps.

A game is restored exactly from ALE's state at the start of the episode and the actions since. ALE's state in the middle of an
episode is not enough: it lacks the frame buffers, and Q*bert shows parts of old ones.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from tdu.environments.adapter import GYM_EPISODES, Adapter, needs_extra
from tdu.environments.ids import EnvId
from tdu.environments.python import Seed, number
from tdu.environments.vector import Arrays, Ended, Plain, Stepped
from tdu.errors import RunError, UserError, tell, unknown
from tdu.options import build, option
from tdu.types import EnvSpec, TimeStep

Resize = Callable[[np.ndarray, int], np.ndarray]
"""resize(picture, size) -> [size, size]."""

ACTIONS = 18
"""All joystick actions. In a game with fewer (Skiing), ALE treats the others as no-ops."""

FRAMES_PER_STEP = 4
"""Frames per action."""

GAMES = (
    "alien", "amidar", "assault", "asterix", "asteroids", "atlantis", "bank_heist", "battle_zone", "beam_rider", "berzerk",
    "bowling", "boxing", "breakout", "centipede", "chopper_command", "crazy_climber", "defender", "demon_attack",
    "double_dunk", "enduro", "fishing_derby", "freeway", "frostbite", "gopher", "gravitar", "hero", "ice_hockey",
    "jamesbond", "kangaroo", "krull", "kung_fu_master", "montezuma_revenge", "ms_pacman", "name_this_game", "phoenix",
    "pitfall", "pong", "private_eye", "qbert", "riverraid", "road_runner", "robotank", "seaquest", "skiing", "solaris",
    "space_invaders", "star_gunner", "surround", "tennis", "time_pilot", "tutankham", "up_n_down", "venture",
    "video_pinball", "wizard_of_wor", "yars_revenge", "zaxxon",
)  # fmt: skip

EXPLORATION = ("gravitar", "montezuma_revenge", "pitfall", "private_eye", "solaris", "tennis", "venture")
"""The paper's hard exploration games (section 5.2)."""

ABLATION = (
    "frostbite", "gravitar", "hero", "montezuma_revenge", "ms_pacman", "seaquest", "space_invaders", "venture",
)  # fmt: skip
"""The games on which the paper chose its settings (appendix E)."""

DENSE = tuple(game for game in ABLATION if game not in EXPLORATION)
"""Games of `ABLATION` with dense rewards. The paper names only two dense games of its main experiment; both are here."""

_MANY_STEPS, _STEPS_PER_SECOND = 5000, 2000
"""From how many steps on replaying is announced, and its approximate speed."""

SUBSETS = {"57": GAMES, "exploration": EXPLORATION, "ablation": ABLATION}
"""Groups of games, as in `tdu sweep atari:exploration`."""


@dataclass(frozen=True)
class AtariSettings:
    """Settings of `atari/GAME`; the defaults are the paper's."""

    size: int = option(84, "Rows and columns of the grey picture.", minimum=8, maximum=160)
    stack: int = option(4, "Pictures in an observation.", minimum=1, maximum=32)
    noops: int = option(30, "Frames at most in which nothing is done at first.", minimum=0, maximum=1000)
    cap: int = option(108_000, "Frames after which an episode is cut off; an action has 4.", minimum=4, maximum=10**9)


def ids(subset: str) -> list[str]:
    """Ids of a subset's games; all games without a name. Settings may follow: `exploration:size=42`."""
    name, _, settings = subset.partition(":")
    if name and name not in SUBSETS:
        raise unknown("set of Atari games", name, SUBSETS)
    return [str(EnvId("atari", game, settings)) for game in SUBSETS[name or "57"]]


def _settings(env_id: EnvId) -> AtariSettings:
    if env_id.name not in GAMES:
        raise unknown("Atari game", env_id.name, GAMES)
    settings: AtariSettings = build(AtariSettings, env_id.options(), kind=f"environment atari/{env_id.name}")
    return settings


def _episodes(env_id: EnvId) -> int:
    _settings(env_id)
    return GYM_EPISODES


class AtariVector:
    """B copies of a game, stepped one after another. The k-th episode of row i is number k·B + i of the run."""

    exact = True
    skips = False

    def __init__(self, env_id: EnvId, seed: Seed, size: int):
        settings = _settings(env_id)
        ale_py, resize = _imported()
        self.spec = EnvSpec(
            name=str(env_id),
            observation_shape=(settings.size, settings.size, settings.stack),
            num_actions=ACTIONS,
            dtype="uint8",
            default_episodes=GYM_EPISODES,
            frames_per_step=FRAMES_PER_STEP,
            is_stacked=settings.stack > 1,
        )
        self.size = size
        self._settings, self._seed = settings, seed
        rom = ale_py.roms.get_rom_path(env_id.name)
        if rom is None:
            raise UserError(
                f"{env_id}: ale-py {ale_py.__version__} does not have this game; reinstall it with pip install 'tdu[atari]'."
            )
        seeds = (number(f"{seed}/atari/{row}") & 0x7FFFFFFF for row in range(size))  # ALE's seeds are signed
        self._games = [_Game(ale_py, resize, rom, game_seed, settings) for game_seed in seeds]
        self._version = f"ale-py {ale_py.__version__}, {hashlib.sha256(Path(rom).read_bytes()).hexdigest()[:16]}"
        self._state_of = ale_py.ALEState
        self._episodes = [0] * size
        self._now = np.zeros((size, *self.spec.observation_shape), np.uint8)

    def start(self) -> np.ndarray:
        for row in range(self.size):
            self._begin(row)
        return self._now.copy()

    def step(self, actions: np.ndarray) -> Stepped:
        chosen = _checked(actions, self.size, self.spec.name)
        after = TimeStep(
            self._now, np.zeros(self.size, np.float32), np.ones(self.size, np.float32), np.zeros(self.size, bool)
        )
        for row, game in enumerate(self._games):
            after.reward[row] = game.act(chosen[row])
            _push(self._now[row], game.picture())
            after.discount[row] = not game.over
            after.last[row] = game.over or game.frames >= self._settings.cap
        after = after._replace(observation=self._now.copy())
        ended = {int(row): Ended(bad=False, totals={}) for row in np.flatnonzero(after.last)}
        for row in ended:
            self._episodes[row] += 1
            self._begin(row)
        now = self._now.copy() if ended else after.observation
        return Stepped(after, np.ones(self.size, bool), now, ended)

    def save(self) -> tuple[Arrays, Plain]:
        """The state of each game before its episode, and the actions since."""
        arrays = {}
        for row, game in enumerate(self._games):
            arrays[f"before_{row}"] = np.frombuffer(game.before, np.uint8)
            arrays[f"actions_{row}"] = np.frombuffer(bytes(game.actions), np.uint8)
        plain = {"episodes": list(self._episodes), "version": self._version, "digest": self._digest()}
        return arrays, plain

    def restore(self, arrays: Arrays, plain: Plain) -> np.ndarray:
        """Restarts the episodes and replays their actions."""
        if plain["version"] != self._version:
            raise RunError(
                f"{self.spec.name} was saved with {plain['version']} and cannot be continued with {self._version}; "
                "install that version of ale-py."
            )
        self._episodes = list(plain["episodes"])
        steps = sum(len(arrays[f"actions_{row}"]) for row in range(self.size))
        if steps > _MANY_STEPS:
            tell(f"replaying {steps:,} steps of {self.spec.name}, about {steps / _STEPS_PER_SECOND:.0f} s …")
        for row, game in enumerate(self._games):
            actions = arrays[f"actions_{row}"].tolist()
            game.ale.restoreState(self._state_of(arrays[f"before_{row}"].tobytes()))
            self._begin(row)
            for i, action in enumerate(actions):
                game.act(action)
                if i >= len(actions) - self._settings.stack:  # earlier pictures have left the stack
                    _push(self._now[row], game.picture())
        if self._digest() != plain["digest"]:
            raise RunError(f"{self.spec.name} does not return to its saved state, so its run cannot be continued.")
        return self._now.copy()

    def screen(self, *, ended: bool = False) -> np.ndarray:
        """The first game's screen in colour, [210, 160, 3], now or at the end of the previous episode."""
        game = self._games[0]
        return game.last_screen if ended else game.ale.getScreenRGB()

    def close(self) -> None:
        self._games = []

    def _begin(self, row: int) -> None:
        draws = np.random.default_rng(number(f"{self._seed}/atari/{self._episodes[row] * self.size + row}/noops"))
        game = self._games[row]
        game.begin(int(draws.integers(self._settings.noops + 1)))
        self._now[row] = 0
        _push(self._now[row], game.picture())

    def _digest(self) -> str:
        """Hash of the observations and of the games' memories."""
        memories = b"".join(game.ale.getRAM().tobytes() for game in self._games)
        return hashlib.sha256(self._now.tobytes() + memories).hexdigest()


class _Game:
    """One game, and what is needed to restore it."""

    def __init__(self, ale_py: ModuleType, resize: Resize, rom: Path, seed: int, settings: AtariSettings):
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(rom)
        self._resize, self._size = resize, settings.size
        self._screens = np.zeros((2, *self.ale.getScreenDims()), np.uint8)
        self._maximum = np.zeros_like(self._screens[0])
        self.before = b""
        self.last_screen = self.ale.getScreenRGB()
        """At the end of the previous episode."""
        self.actions = bytearray()
        self.frames = 0
        """Since the start of the episode, without no-ops."""
        self.over = False

    def begin(self, noops: int) -> None:
        """Starts an episode with some no-op frames."""
        self.before, self.last_screen = self.ale.cloneState(include_rng=True).serialize(), self.ale.getScreenRGB()
        self.ale.reset_game()
        for _ in range(noops):
            self.ale.act(0)
            if self.ale.game_over():
                self.ale.reset_game()
        self.actions = bytearray()
        self.frames, self.over = 0, False
        self.ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = self._screens[0]

    def act(self, action: int) -> float:
        """Takes an action and returns its reward. If the game ends early, only the last frame is shown."""
        reward = 0
        self.actions.append(action)
        for frame in range(1, FRAMES_PER_STEP + 1):
            reward += self.ale.act(action)
            self.frames += 1
            self.over = self.ale.game_over()
            if frame == FRAMES_PER_STEP - 1 or (self.over and frame < FRAMES_PER_STEP):
                self.ale.getScreenGrayscale(self._screens[0])
            if self.over:
                break
        self.ale.getScreenGrayscale(self._screens[1])
        return float(reward)

    def picture(self) -> np.ndarray:
        """The maximum of the last two frames, resized, [size, size]."""
        return self._resize(np.maximum(self._screens[0], self._screens[1], out=self._maximum), self._size)


def _push(stack: np.ndarray, picture: np.ndarray) -> None:
    """Appends a picture to a stack [size, size, stack] and drops the oldest, by moving all bytes one place."""
    flat = stack.reshape(-1)
    flat[:-1] = flat[1:]
    stack[..., -1] = picture


def _checked(actions: np.ndarray, size: int, name: str) -> list[int]:
    """Actions as integers in range; ALE itself does not check them."""
    given = np.asarray(actions)
    if given.shape != (size,) or given.dtype.kind not in "iu" or not np.all((given >= 0) & (given < ACTIONS)):
        raise UserError(f"{name} takes {size} whole numbers from 0 to {ACTIONS - 1} as actions, not {given.tolist()}.")
    return [int(action) for action in given]


def _imported() -> tuple[ModuleType, Resize]:
    """The module ale_py, and a function that resizes a grey picture to [size, size]."""
    with needs_extra("atari"):
        import ale_py
        import ale_py.roms
        import cv2
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner

    def resized(picture: np.ndarray, size: int) -> np.ndarray:
        return np.asarray(cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA))

    return ale_py, resized


ADAPTER = Adapter(
    "atari/GAME", "one of 57 Atari games, e.g. atari/montezuma_revenge or atari/freeway:size=42,stack=4", "atari/freeway",
    AtariVector, _episodes, ids,
)  # fmt: skip
