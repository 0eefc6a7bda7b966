#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every source file begins with its licence and says what it is; no text holds what words.txt
lists: paths of one machine, talk about how the work was organised, notes of unfinished work."""
import re

from csource import C_FOLDERS, ROOT, c_files, files, finish, relative

SELF = ROOT / "tools/check/words.txt"
TEXT = (".c", ".h", ".def", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".1", ".3", ".in")
OWN_WORDS = re.compile(r"/data/")  # goldens and vocabularies are other people's words


def patterns():
    for line in SELF.read_text().splitlines():
        if line and not line.startswith("#"):
            yield re.compile(line, re.I)


def check_head(path):
    """The licence in the first lines, and in C a comment that goes on to say something."""
    head = path.read_text().splitlines()[:12]
    where = relative(path)
    if not any("SPDX-License-Identifier: MIT" in line for line in head[:2]):
        yield f"{where}:1: does not begin with SPDX-License-Identifier: MIT"
    elif path.suffix in (".c", ".h", ".def"):
        if not any(line.strip(" */") for line in head[1:4]):
            yield f"{where}:1: the comment at the top does not say what the file is"


def main():
    problems = []
    sources = c_files(C_FOLDERS) + files(C_FOLDERS + ("tools",), (".py", ".sh"))
    for path in sources:
        problems += check_head(path)
    top = [p for p in ROOT.iterdir() if p.is_file() and p.suffix in TEXT + ("",)]
    texts = files(C_FOLDERS + ("tools", "docs", "man", "cmake", ".ci"), TEXT + ("run",)) + top
    texts = [p for p in texts if p != SELF and not OWN_WORDS.search(relative(p))]
    wanted = list(patterns())
    for path in texts:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for pattern in wanted:
                found = pattern.search(line)
                if found:
                    problems.append(f"{relative(path)}:{number}: holds \"{found.group()}\"")
    finish(problems, f"{len(texts)} files")


main()
