#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the documents name must exist: functions and types of vocis.h, verbs and options of the
program, verbs of ./dev, and the files that links point to.

    docs.py PROGRAM      PROGRAM: a built vocis
"""
import re
import subprocess
import sys

from csource import ROOT, files, finish, relative

PUBLIC = re.compile(r"\bvocis_\w+\b(?!\.\w|/)")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"(?<![\w/.-])vocis ([a-z]+)([^|;`\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]*")
SPAN = re.compile(r"`(--[a-z][a-z0-9_-]*)[^`]*`")
DEV = re.compile(r"\./dev ([a-z]+)")
# Names that are no identifiers of the header: build targets and the like.
OTHER_NAMES = {"vocis_program", "vocis_completions"}
# Options of pip, and of the kernel tests.
OTHER_OPTIONS = {"--no-deps", "--bench"}


def help_of(program, *words):
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, text=True)
    return done.stdout


def without_roff(text):
    """A manual page (mdoc) with its options as one types them."""
    return text.replace("\\-", "-").replace("\\&", "").replace("Fl ", "-")


def options_in(text):
    return {o.replace("_", "-") for o in OPTION.findall(text)}


class Program:
    """Verbs and options as --help tells them."""

    def __init__(self, path):
        self.verbs = {}
        for line in help_of(path, "--help").splitlines():
            found = re.match(r"  ([a-z]+)   +\S", line)
            if found:
                self.verbs[found.group(1)] = options_in(help_of(path, found.group(1), "--help"))
        self.all = set().union({"--help", "--version"}, *self.verbs.values())

    def problems(self, text):
        for verb, rest in COMMAND.findall(text):
            if verb not in self.verbs:
                if OPTION.search(rest):
                    yield f"vocis has no verb {verb}"
                continue
            for option in sorted(options_in(rest) - self.verbs[verb]):
                yield f"vocis {verb} has no option {option}"


def main():
    program = Program(sys.argv[1])
    header = set(PUBLIC.findall((ROOT / "include/vocis.h").read_text()))
    dev = set(re.findall(r"^([a-z]+)(?: \|.*)?\) ", (ROOT / "dev").read_text(), re.M))
    manuals = files(("man",), (".1", ".3"))
    documents = [ROOT / "README.md"] + files(("docs",), (".md",)) + manuals
    problems = [] if len(program.verbs) > 3 else ["the program's help names no verbs"]
    for path in documents:
        pages = without_roff(path.read_text())
        for number, line in enumerate(pages.splitlines(), 1):
            found = [f"{n} is not in vocis.h" for n in PUBLIC.findall(line)
                     if n not in header | OTHER_NAMES]
            found += program.problems(line)
            found += [f"vocis has no option {o}" for o in SPAN.findall(line)
                      if o.replace("_", "-") not in program.all | OTHER_OPTIONS]
            found += [f"./dev has no verb {v}" for v in DEV.findall(line) if v not in dev]
            found += [f"no such file: {t}" for t in LINK.findall(line)
                      if "://" not in t and not (path.parent / t).exists()]
            problems += [f"{relative(path)}:{number}: {p}" for p in found]
    for page in manuals:  # each option of a manual page belongs to the verb of its name
        verb = page.stem.removeprefix("vocis-")
        if verb in program.verbs:
            text = without_roff(page.read_text())
            told = options_in("\n".join(re.findall(r"^\.It (-.*)$", text, re.M)))
            problems += [f"{relative(page)}: vocis {verb} has no option {o}"
                         for o in sorted(told - program.verbs[verb])]
            problems += [f"{relative(page)}: does not tell {o}"
                         for o in sorted(program.verbs[verb] - options_in(text))]
    finish(problems, f"{len(documents)} documents")


main()
