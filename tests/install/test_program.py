"""flexinfer as a user gets it: installed by itself or with libvtensor, moved, and run; and its manual page."""
import re
import unittest

import installed
from installed import BIN, BUILD, VERSION, needs, run

PAGE = BUILD / "man" / "flexinfer.1"
FILES = {"bin/flexinfer", "share/man/man1/flexinfer.1", "share/bash-completion/completions/flexinfer",
         "share/zsh/vendor-completions/_flexinfer", "share/fish/vendor_completions.d/flexinfer.fish"}
COMMANDS = ["serve", "run", "tokenize", "inspect", "bench", "help"]


class Program(installed.TestCase):
    def install(self, *component):
        return installed.move_installed(self.scratch, *component)

    @staticmethod
    def files(prefix):
        return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}

    def test_the_program_alone(self):
        prefix = self.install("--component", "flexinfer")
        self.assertEqual(self.files(prefix), FILES)

    def test_the_installed_program_runs(self):
        program = self.install("--component", "flexinfer") / "bin" / "flexinfer"
        self.assertEqual(run(program, "--version"), f"flexinfer {VERSION}\n")
        self.assertIn("tokens at", run(program, "run", "-m", self.model(), "-p", "x", "-n", "4", "--kv-memory", "16M"))
        self.assertNotRegex(run("readelf", "--dynamic", program), "RPATH|RUNPATH")

    def test_the_laboratory(self):
        prefix = self.install("--component", "bench")
        self.assertEqual(self.files(prefix), {"bin/flexinfer-lab"})
        self.assertEqual(run(prefix / "bin" / "flexinfer-lab", "--version"), f"flexinfer-lab {VERSION}\n")

    def test_everything(self):
        found = self.files(self.install())
        self.assertLessEqual(FILES | {"share/man/man3/libvtensor.3",
                              "include/vtensor/vtensor.h"}, found)
        self.assertEqual({name for name in found if name.startswith("bin/")}, {"bin/flexinfer"})


class Manual(unittest.TestCase):
    def test_every_option_of_every_command(self):
        """What help prints is on the page, under its command, with its variable."""
        page = PAGE.read_text(encoding="utf-8")
        for command in COMMANDS:
            options = re.findall(r"^ +(?:-\w, )?--([\w-]+)", run(BIN / "flexinfer", "help", command), re.MULTILINE)
            section = re.search(rf"^\.Ss Options of {command}\n(.*?)^\.S[hs] ", page, re.MULTILINE | re.DOTALL)
            self.assertEqual(bool(options), section is not None, command)
            for option in options:
                name = option.upper().replace("-", "_")
                self.assertRegex(section.group(1), rf"(?m)^\.It .*Fl -{option}( |$)", command)
                self.assertIn(f".Ev FLEXINFER_{name} .\n", section.group(1))

    def test_every_command(self):
        page = PAGE.read_text(encoding="utf-8")
        for command in COMMANDS:
            self.assertIn(f".Nm\n.Cm {command}\n", page)
            self.assertIn(f".It Cm {command}\n", page)

    @needs("groff")
    def test_the_page_is_well_formed(self):
        self.assertEqual(run("groff", "-mandoc", "-Tutf8", "-ww", "-z", PAGE), "")

    @needs("man")
    def test_man_shows_it(self):
        text = run("man", "--warnings", "-P", "cat", "-l", PAGE)
        self.assertIn("FLEXINFER_KV_MEMORY", text)
        self.assertNotIn("warning", text)


if __name__ == "__main__":
    unittest.main()
