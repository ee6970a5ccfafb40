"""checking.py - what the checks of this folder share: their command line, and reading C."""
import re
import sys
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
C_SUFFIXES = {".c", ".h", ".cu", ".cuh"}
PLACES = ("src", "include", "lab")  # whose folders the rules names

# A comment, or a string or character literal (which may hold what looks like a comment).
COMMENT = re.compile(r'//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")


def main(tool, check, self_test, folder=ROOT):
    """Runs check(folder), which returns what it has looked at in words, and a list of offences; or the self-test, which
    returns a list of problems. Returns the exit status."""
    args = sys.argv[1:]
    if args == ["--self-test"]:
        problems, done = self_test(), "self-test good"
    elif len(args) > 1 or (args and args[0].startswith("-")):
        print(sys.modules["__main__"].__doc__, file=sys.stderr)
        return 2
    else:
        done, problems = check(Path(args[0]).resolve() if args else folder)
    print("\n".join(problems) if problems else f"{tool}: {done}")
    return 1 if problems else 0


def c_files(root, *folders):
    """Every C file below the folders of root, in order."""
    return [p for folder in folders for p in sorted((root / folder).rglob("*"))
            if p.suffix in C_SUFFIXES and p.is_file()]


def read(path):
    return path.read_text(encoding="utf-8")


def without_comments(text):
    """The text with blanks for comments: its lines keep their numbers, its strings stay."""
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else m[0], text)


def without_strings(text):
    """The text of without_comments with empty literals."""
    return COMMENT.sub(lambda m: m[0][0] * 2 if m[0][0] in "\"'" else m[0], text)


def comments(text):
    """(line, comment) of every comment."""
    return [(text.count("\n", 0, m.start()) + 1, m[0]) for m in COMMENT.finditer(text) if m[0][0] == "/"]


def folder_of(path, root):
    """The folder a file lies in, as the rules name it: "base", "format/vocab/read", "include/vtensor"."""
    folder = path.relative_to(root).parent.as_posix()
    return folder.removeprefix("src/")


def module_of(folder):
    """The module of a folder: its first folder; public headers are modules of their own."""
    parts = folder.split("/")
    return "/".join(parts[:2]) if parts[0] == "include" else parts[0]


def covers(entry, folder, header=None):
    """Whether an entry of the rules covers a folder, or one header of it."""
    if entry.endswith("/..."):
        return folder == entry[:-4] or folder.startswith(entry[:-3])
    return entry in (folder, header)


def may_include(rules, folder, header):
    """Whether a file of the folder may include the header, a path as the rules name it."""
    owner = header.rsplit("/", 1)[0]
    return owner == folder or any(covers(entry, owner, header) for entry in rules.get(folder, []))


def path_between(graph, start, end, through):
    """The shortest way from start to end in {node: nodes} whose inner nodes through() accepts; or None."""
    before, queue = {start: None}, deque([start])
    while queue:
        at = queue.popleft()
        for to in sorted(graph[at]):
            if to == end:
                way = [to, at]
                while before[way[-1]]:
                    way.append(before[way[-1]])
                return way[::-1]
            if to not in before and through(to):
                before[to] = at
                queue.append(to)
    return None


def compare(found, expected):
    """The problems of a self-test: expected lines (beginnings) that are missing, and lines that none expects."""
    missing = [f"expected: {e}" for e in expected if not any(f.startswith(e) for f in found)]
    extra = [f"not expected: {f}" for f in found if not any(f.startswith(e) for e in expected)]
    return missing + extra


def write_tree(root, files):
    """Writes {path: text} below root."""
    for name, text in files.items():
        path = Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
