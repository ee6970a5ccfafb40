"""The Debian package, made from this build: what is in it, what it needs, and its scripts in a root of their own."""
import os
import re
import tempfile
import unittest
from pathlib import Path

from installed import BUILD, CMAKE, VERSION, needs, run

CPACK = Path(CMAKE).with_name("cpack")
FILES = {
    "/etc/flexinfer/flexinfer.conf", "/usr/bin/flexinfer", "/usr/lib/systemd/system/flexinfer.service",
    "/usr/share/bash-completion/completions/flexinfer", "/usr/share/doc/flexinfer/api.md",
    "/usr/share/doc/flexinfer/copyright", "/usr/share/doc/flexinfer/flexinfer.json",
    "/usr/share/fish/vendor_completions.d/flexinfer.fish", "/usr/share/man/man1/flexinfer.1",
    "/usr/share/zsh/vendor-completions/_flexinfer",
}


@needs("dpkg-deb", "dpkg-shlibdeps", "file")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="flexinfer-package-")))
        run(CPACK, "-G", "DEB", "-B", folder, "--config", BUILD / "CPackConfig.cmake", cwd=BUILD,
            env={"XZ_DEFAULTS": "-0"})
        [cls.package] = folder.glob("flexinfer_*.deb")
        cls.root, cls.control = folder / "root", folder / "control"
        run("dpkg-deb", "-x", cls.package, cls.root)
        run("dpkg-deb", "-e", cls.package, cls.control)

    def test_files(self):
        found = {f"/{path.relative_to(self.root)}" for path in self.root.rglob("*") if path.is_file()}
        self.assertEqual(found, FILES)
        for line in run("dpkg-deb", "-c", self.package).splitlines():
            self.assertRegex(line, r"^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--) root/root ")
        self.assertEqual((self.control / "conffiles").read_text(), "/etc/flexinfer/flexinfer.conf\n")

    def test_control(self):
        text = (self.control / "control").read_text()
        self.assertIn("Package: flexinfer\n", text)
        self.assertIn(f"Version: {VERSION}\n", text)
        needs = re.search(r"^Depends: (.*)$", text, re.MULTILINE).group(1)
        for library in ("libc6", "libcurl3-gnutls", "libgnutls30", "libpcre2-8-0", "libutf8proc", "passwd", "ca-certificates"):
            self.assertIn(library, needs)
        self.assertNotIn("-dev", needs)

    def test_the_program_runs(self):
        self.assertRegex(run(self.root / "usr/bin/flexinfer", "--version"), r"^flexinfer [\d.]+\n$")

    def test_scripts(self):
        """Each is a program for sh; what installing and removing call does nothing when it is called otherwise."""
        for name in ("postinst", "prerm", "postrm"):
            script = self.control / name
            self.assertTrue(os.access(script, os.X_OK), name)
            run("sh", "-n", script)
            self.assertIn("\nset -e\n", script.read_text())
        for name in ("postinst", "prerm"):
            self.assertEqual(run("sh", self.control / name, "abort-upgrade"), "")


if __name__ == "__main__":
    unittest.main()
