// fuzz_gram_rules.c - any grammar in GBNF or Lark's notation: it is refused with a line of text, or
// it makes a form that can be walked.
#include "fuzz.h"
#include "gram_walk.h"
#include "grammar/syntax/gram_rules.h"

FUZZ_TARGET(fuzz_gram_rules);

int fuzz_gram_rules_run(const uint8_t *data, size_t n_bytes)
{
    fxi_gram g = {0};
    fx_error err = {0};
    uint32_t node = 0;
    const fxi_str text = {(const char *)data, n_bytes};
    const fx_status st = fxi_rules_add(&g, text, &node, &err);
    check_gram(&g, node, st, &err);
    return 0;
}

FUZZ_SEEDS(fuzz_gram_rules, "root ::= \"a\" b* | [x-z]{2,3} # c\nb ::= root \"\\u00e9\" |\n",
           "root ::= \"[\" ws (i (\",\" ws i)*)? \"]\"\ni ::= [0-9]+ | .\nws ::= [ \\t]*",
           "%import common (INT, WS)\n%ignore WS\nstart: sum // c\n?sum: INT | sum \"+\"i INT -> "
           "add\n",
           "start: [\"-\"] /[a-z]\\d/ ~2..4 (A|_b)?\nA.2: \"a\"..\"f\"\n!_b: \"x\"+\n",
           "root ::= root \"x\" | root", "start: x{\"a\"}\n%declare Y\n")
