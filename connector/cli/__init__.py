"""The command line: ``relstate COMMAND STORE ...``.

Read in this order: program (the commands and how the program ends); the commands: tables, listings
(views and commits), rows, files, statements, maintenance, pages, redis, doctor (and pythons);
terminal (arguments and output), completion (of words in a shell), surroundings (the process's
variables and other programs).

Needs click and rich, which the extra ``relstate[cli]`` brings; says so where they are missing.
"""

import sys

__all__ = ["main"]

_NEEDED = ("click", "rich")
_EXTRAS = {"ui": "ui", "report": "ui", "redis": "redis"}


def main() -> int:
    """Run the program with the process's arguments; return its exit code, unless it exits."""
    try:
        from .program import program
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".", 1)[0]
        if missing not in _NEEDED:
            raise
        from relstate.storage import install_command

        # The extras of these commands bring that of the command line.
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        extra = _EXTRAS.get(command, "cli")
        sys.stderr.write(f"relstate: {missing} is missing: {install_command(extra)}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("relstate: interrupted\n")
        return 130
    program(prog_name="relstate")
    return 0
