"""`tdu list`: agents and environments."""

from tdu import agents, environments, options
from tdu.cli.parser import Parser


def run(arguments: list[str]) -> int:
    Parser(prog="tdu list", description="List agents and environments.").parse_args(arguments)
    print("Agents (tdu train ENV --agent NAME):")
    for name, entry in agents.AGENTS.items():
        print(f"  {name:<16}{entry.summary}")
    print("\nEnvironments (tdu train ENV):")
    for name, built_in in environments.BUILT_IN.items():
        print(f"  {name:<16}{built_in.summary}")
        for field, kind, default, help_text in options.describe(built_in.settings):
            value = str(default).lower() if isinstance(default, bool) else default
            print(f"    {f'{field}={value}':<21} {help_text} ({kind})")
    print("  NAME/INDEX      a bsuite id, compiled, e.g. cartpole/0; same behaviour as the official environment")
    print("  bsuite:ID       bsuite's official environment, in Python, e.g. bsuite:cartpole/0")
    print("  gym:ID          a Gymnasium id with discrete actions, e.g. gym:CartPole-v1")
    print("  gymnax:NAME     a gymnax environment, compiled, e.g. gymnax:Breakout-MinAtar")
    print("  atari/GAME      one of 57 Atari games, e.g. atari/montezuma_revenge or atari/freeway:size=42,stack=4")
    print("  python:M:F      the environment that function F of your module M returns: dm_env, Gymnasium or tdu")
    return 0
