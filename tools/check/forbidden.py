#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls that the library must not make: it prints nothing, never ends the process, takes memory
through base/memory.h, and reads the environment in base and hub only."""
import re

from csource import c_files, code_of, finish, relative

# (what, pattern, files below src/ where it is allowed)
RULES = [
    ("prints", r"\b(?:v?printf|puts|putchar|perror|psignal)\s*\(|\bf(?:printf|puts|putc|write)\s*"
     r"\((?:[^;]*\b)?std(?:out|err)\b|\bstd(?:out|err)\b", ()),
    ("ends the process", r"\b(?:exit|_Exit|quick_exit|abort|raise)\s*\(|__builtin_trap", ()),
    ("ends the process", r"\b_exit\s*\(", ("base/process.c",)),  # the child after a failed exec
    ("takes memory beside base/memory.h", r"\b(?:malloc|calloc|realloc|aligned_alloc|strdup|"
     r"strndup|posix_memalign|alloca)\s*\(", ("base/memory.c",)),
    ("reads the environment", r"\b(?:secure_)?getenv\s*\(", ("base/", "hub/")),
    ("changes the environment", r"\b(?:setenv|putenv|unsetenv|setlocale|chdir|umask)\s*\(", ()),
    ("starts a shell", r"\b(?:system|popen)\s*\(", ()),
    ("has no bound", r"\b(?:gets|sprintf|vsprintf|strcpy|strcat|strtok|scanf)\s*\(", ()),
    ("cannot tell an error", r"\b(?:atoi|atol|atof)\s*\(", ()),
    ("shares hidden state", r"\b(?:rand|srand|random|drand48|localtime|gmtime)\s*\(", ()),
]


def main():
    problems, sources = [], c_files(("src",))
    for path in sources:
        where, text = relative(path), code_of(path.read_text())
        for what, pattern, allowed in RULES:
            if where.removeprefix("src/").startswith(allowed):
                continue
            for match in re.finditer(r"(?<![.>])" + f"(?:{pattern})", text):
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{where}:{line}: {match.group().strip()}: {what}")
    finish(problems, f"{len(sources)} files")


main()
