"""The commands of the command line, a file each: `run(arguments)` returns the exit code."""
