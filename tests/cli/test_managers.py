"""flexinfer --kv: every KV manager gives the same text; the names are listed; what a manager cannot do is refused."""
import re

import cli


class Managers(cli.TestCase):
    def names(self):
        wrong = ("run", "-m", cli.tiny_model(), "-p", "x", "--kv", "none")
        self.fails(1, "unknown KV manager 'none'", *wrong)
        return re.search(r"managers: (.*)", cli.run(*wrong).stderr.decode()).group(1).strip().split(", ")

    def test_every_manager_says_the_same(self):
        names = self.names()
        self.assertGreaterEqual(len(names), 5)
        self.assertEqual(names[0], "vtensor")
        texts = {name: self.ok("run", "-m", cli.tiny_model(), "-p", "Once upon a time", "-n", 40, "--ignore-eos",
                               "--temperature", "0", "--kv-memory", "16M", "--kv", name).stdout for name in names}
        for name in names:
            self.assertEqual(texts[name], texts[names[0]], name)

    def test_managers_of_the_laboratory(self):
        for name in ("reserve-max", "reserve-pow2", "reserve-oracle"):
            self.fails(1, f"--kv {name}: only flexinfer-lab has this manager", "run", "-m", cli.tiny_model(), "-p", "x",
                       "--kv", name)

    def test_block_size(self):
        run = ("run", "-m", cli.tiny_model(), "-p", "x", "-n", 4, "--kv-memory", "16M", "--kv", "paged", "--kv-block")
        self.ok(*run, "64")
        for size in ("8", "48", "512"):
            self.fails(1, "blocks of %s tokens" % size, *run, size)


cli.main()
