#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the sizes: functions of at most 80 lines (150 with a reason), files of 1000, lines of 100
columns. Relies on clang-format: a function begins with a line at the left margin that ends with an
opening brace, and ends with a closing brace alone at the left margin."""
import re

from csource import C_FOLDERS, c_files, files, finish, relative, ROOT

LINES_OF_FUNCTION, HARD_LIMIT, LINES_OF_FILE, COLUMNS = 80, 150, 1000, 100
# (file, function): why it is longer than 80 lines
LONG_FUNCTIONS = {
}
NAME = re.compile(r"(\w+)\s*\(")


def functions(lines):
    """(name, first line, number of lines) of every function."""
    signature = None
    for number, line in enumerate(lines, 1):
        if re.match(r"[A-Za-z_]", line) and not line.startswith(("struct ", "enum ", "typedef ")):
            signature = number
        if signature and line == "}":
            head = " ".join(lines[signature - 1 : signature + 8])
            name = NAME.search(head)
            if name and "{" in head and "=" not in head.split("(")[0]:
                yield name.group(1), signature, number - signature + 1
            signature = None


def check_functions(where, lines, unused):
    for name, first, length in functions(lines):
        if length <= LINES_OF_FUNCTION:
            continue
        unused.discard((where, name))
        if length > HARD_LIMIT or (where, name) not in LONG_FUNCTIONS:
            yield (f"{where}:{first}: {name} has {length} lines; the limit is {LINES_OF_FUNCTION}, "
                   f"or {HARD_LIMIT} with a reason in sizes.py")


def check_columns(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if len(line) > COLUMNS:
            yield f"{relative(path)}:{number}: {len(line)} columns; the limit is {COLUMNS}"


def main():
    problems, unused = [], set(LONG_FUNCTIONS)
    sources = c_files(C_FOLDERS)
    for path in sources:
        where, lines = relative(path), path.read_text().splitlines()
        if len(lines) > LINES_OF_FILE:
            problems.append(f"{where}: {len(lines)} lines; the limit is {LINES_OF_FILE}")
        problems += check_functions(where, lines, unused)
    problems += [f"{where}: {name} is no longer long; take it out of sizes.py"
                 for where, name in sorted(unused)]
    scripts = files(C_FOLDERS + ("tools", "cmake"), (".py", ".sh", ".cmake", "CMakeLists.txt"))
    for path in sources + scripts + [ROOT / "dev", ROOT / ".ci/run", ROOT / "CMakeLists.txt"]:
        problems += check_columns(path)
    finish(problems, f"{len(sources)} C files")


main()
