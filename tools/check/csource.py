# SPDX-License-Identifier: MIT
"""What the checkers share: which files there are, and C text without comments and strings."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
C_FOLDERS = ("src", "cli", "server", "include", "tests", "examples", "bench", "bindings")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def files(folders, suffixes):
    """Paths below the named folders of the repository, sorted."""
    found = (p for f in folders for p in (ROOT / f).rglob("*"))
    return sorted(p for p in found if p.is_file() and p.name.endswith(tuple(suffixes)))


def c_files(folders=C_FOLDERS):
    return files(folders, (".c", ".h", ".def"))


def relative(path):
    return path.relative_to(ROOT).as_posix()


def code_of(text, keep_strings=False):
    """C text with comments (and the insides of strings) blanked out; lines stay where they are."""
    def blank(match):
        token = match.group()
        if token[0] == "/":
            return "\n" * token.count("\n") or " "
        return token if keep_strings else token[0] + token[-1]

    return TOKEN.sub(blank, text)


def finish(problems, checked):
    """Prints every problem, says what was looked at, and ends the program."""
    for line in problems:
        print(line)
    print(f"{len(problems)} problems in {checked}")
    sys.exit(1 if problems else 0)
