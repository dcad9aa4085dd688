"""`tdu mnist`: where bsuite's MNIST experiments find their data."""

from tdu.cli.parser import Parser


def run(arguments: list[str]) -> int:
    Parser("mnist", "Show where bsuite's MNIST experiments look for their data.").parse_args(arguments)
    from tdu.environments import mnist_files  # imports JAX

    folder = mnist_files.digits_folder()
    print(
        f"bsuite's MNIST experiments read four files from {folder}\n(or from the folder in the variable TDU_MNIST):\n\n  "
        + "\n  ".join(f"{'found    ' if (folder / f).is_file() else 'missing  '} {f}" for f in mnist_files.MNIST_FILES)
        + "\n\nThey are the original, gzipped files of MNIST (Yann LeCun et al.). Download them from any mirror into"
        "\nthis folder, with these file names."
    )
    return 0
