"""libvtensor as an embedder gets it: installed by itself, moved, found by pkg-config and by CMake, built against and run."""
import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

import installed
from installed import CMAKE, ROOT, VERSION, needs, run

GENERATOR, CC = os.environ["VT_GENERATOR"], os.environ["VT_CC"]
SANITIZE = [f"-fsanitize={os.environ['VT_SANITIZE']}"] if os.environ["VT_SANITIZE"] else []
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
HEADERS = ["status.h", "vmm.h", "vtensor.h", "team.h", "vattention.h"]

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(embed C)
find_package(vtensor 0.1 REQUIRED)
foreach(name vtensor vtensor_static)
  add_executable(with_${name} embed.c)
  target_link_libraries(with_${name} PRIVATE vtensor::${name})
endforeach()
"""


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="vtensor-install-")))
        cls.prefix = installed.move_installed(cls.scratch, "--component", "vtensor")
        cls.lib = next(cls.prefix.rglob("libvtensor.a")).parent
        cls.example = shutil.copy(ROOT / "examples" / "embed.c", cls.scratch)
        cls.env = {"PKG_CONFIG_PATH": str(cls.lib / "pkgconfig"), "LD_LIBRARY_PATH": str(cls.lib)}

    def runs(self, program, env=None):
        lines = run(program, env=env).splitlines()
        self.assertIn("KiB", lines[0])
        self.assertRegex(lines[-1], r"^trim and evict +-\d+ +0 +0 +0 +0$")

    def needed(self, program):
        return re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "--dynamic", program))

    def declared(self):
        """The functions of the public headers."""
        texts = [(self.prefix / "include" / "vtensor" / header).read_text(encoding="utf-8") for header in HEADERS]
        return set(re.findall(r"^VT_API\b[^;(]*?\b(vt_\w+)\(", "\n".join(texts), re.MULTILINE))

    def test_what_is_installed(self):
        found = {str(p.relative_to(self.prefix)) for p in self.prefix.rglob("*") if not p.is_dir()}
        lib = str(self.lib.relative_to(self.prefix))
        wanted = {f"{lib}/libvtensor.a", f"{lib}/libvtensor.so", f"{lib}/libvtensor.so.0", f"{lib}/libvtensor.so.{VERSION}",
                  f"{lib}/pkgconfig/vtensor.pc", *(f"include/vtensor/{name}" for name in HEADERS)}
        self.assertLessEqual(wanted, found)
        rest = {re.sub(r"Targets-\w+", "Targets", name) for name in found - wanted}
        wanted = {f"{lib}/cmake/vtensor/vtensor{part}.cmake" for part in ("Config", "ConfigVersion", "Targets")}
        self.assertEqual(rest, wanted | {"share/man/man3/libvtensor.3"})

    def test_nothing_names_a_place(self):
        places = (str(ROOT), str(self.scratch))
        for path in self.prefix.rglob("*"):
            if path.suffix in (".pc", ".cmake", ".h", ".3"):
                text = path.read_text(encoding="utf-8")
                self.assertFalse([place for place in places if place in text], path)

    def test_exports(self):
        names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", self.lib / "libvtensor.so").splitlines()]
        self.assertIn("vt_manager_create", names)
        self.assertEqual([name for name in names if not name.startswith(("vt_", "__odr_asan"))], [])
        self.assertEqual({name for name in names if name.startswith("vt_")}, self.declared())

    def test_shared_library(self):
        dynamic = run("readelf", "--dynamic", self.lib / "libvtensor.so")
        self.assertIn("soname: [libvtensor.so.0]", dynamic)
        self.assertNotRegex(dynamic, "RPATH|RUNPATH|TEXTREL")
        if not SANITIZE:
            self.assertLessEqual(set(self.needed(self.lib / "libvtensor.so")),
                                 {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"})

    def test_headers_as_c(self):
        for header in HEADERS:
            source = self.scratch / "one.c"
            source.write_text(f"#include <vtensor/{header}>\nextern int i;\n", encoding="utf-8")
            run(CC, "-std=c11", *STRICT, "-fsyntax-only", "-I", self.prefix / "include", source)

    @needs("g++")
    def test_headers_as_cpp(self):
        source = self.scratch / "all.cpp"
        lines = "".join(f"#include <vtensor/{header}>\n" for header in HEADERS)
        source.write_text(lines + 'int main() { return vt_status_name(VT_OK)[0] != \'V\'; }\n', encoding="utf-8")
        for standard in ("c++11", "c++20"):
            run("g++", f"-std={standard}", *STRICT, "-fsyntax-only", "-I", self.prefix / "include", source)

    def pkg_config(self, *args):
        """The words it prints, as a shell would take them."""
        words = run("pkg-config", *args, "vtensor", env=self.env)
        return run("sh", "-c", f"printf '%s\\n' {words.strip()}").splitlines()

    def compile(self, program, *flags):
        run(CC, "-std=c11", *STRICT, *SANITIZE, "-o", program, self.example, *flags)

    @needs("pkg-config")
    def test_pkg_config_shared(self):
        self.assertEqual(run("pkg-config", "--modversion", "vtensor", env=self.env).strip(), VERSION)
        program = self.scratch / "embed_shared"
        self.compile(program, *self.pkg_config("--cflags", "--libs"))
        self.assertIn("libvtensor.so.0", self.needed(program))
        self.runs(program, env=self.env)

    @needs("pkg-config")
    def test_pkg_config_static(self):
        libs = [re.sub("^-lvtensor$", "-l:libvtensor.a", word) for word in self.pkg_config("--static", "--libs")]
        program = self.scratch / "embed_static"
        self.compile(program, *self.pkg_config("--cflags"), *libs)
        self.assertNotIn("libvtensor.so.0", self.needed(program))
        self.runs(program)

    def test_cmake(self):
        source, build = self.scratch / "project", self.scratch / "project-build"
        source.mkdir()
        shutil.copy(self.example, source)
        (source / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
        run(CMAKE, "-S", source, "-B", build, "-G", GENERATOR, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_C_FLAGS={' '.join(STRICT + SANITIZE)}")
        run(CMAKE, "--build", build)
        self.assertIn("libvtensor.so.0", self.needed(build / "with_vtensor"))
        self.assertNotIn("libvtensor.so.0", self.needed(build / "with_vtensor_static"))
        self.runs(build / "with_vtensor")
        self.runs(build / "with_vtensor_static")

    def test_manual_names_every_function(self):
        text = next(self.prefix.rglob("libvtensor.3")).read_text(encoding="utf-8")
        self.assertEqual({name for name in self.declared() if not re.search(rf"^\.F[no] {name}\b", text, re.MULTILINE)}, set())

    @needs("groff")
    def test_manual_is_well_formed(self):
        self.assertEqual(run("groff", "-mandoc", "-Tutf8", "-ww", "-z", next(self.prefix.rglob("libvtensor.3"))), "")


if __name__ == "__main__":
    unittest.main()
