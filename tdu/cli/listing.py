"""`tdu list`: agents and environments."""

from tdu import agents, options
from tdu.cli.parser import Parser


def run(arguments: list[str]) -> int:
    Parser("list", "List agents and environments.").parse_args(arguments)
    from tdu import environments  # imports JAX
    from tdu.environments.built_in import BUILT_IN

    print("Agents (tdu train ENV --agent NAME):")
    for name, entry in agents.AGENTS.items():
        print(f"  {name:<16}{entry.summary}")
    print("\nEnvironments (tdu train ENV):")
    for source, adapter in environments.ADAPTERS.items():
        print(f"  {adapter.form:<16}{adapter.summary}")
        for field, kind, default, words in options.describe(BUILT_IN[source].settings) if source in BUILT_IN else ():
            value = str(default).lower() if isinstance(default, bool) else default
            print(f"    {f'{field}={value}':<21} {words} ({kind})")
    return 0
