// test_rules.c - grammars in GBNF and in Lark's notation: the texts that they accept and do not,
// and what is refused by name, with its line.
#include "unit/cmocka_all.h"

#include "grammar/syntax/gram_rules.h"
#include "unit/grammar/gram_machine.h"

typedef struct rules_case {
    const char *name, *grammar;
    const char *yes[8], *no[8];
} rules_case;

static const rules_case cases[] = {
    {"texts and alternatives",
     "root ::= \"yes\" | \"no\"\n",
     {"yes", "no"},
     {"", "y", "yesno", "maybe"}},
    {"escapes",
     "root ::= \"a\\n\\t\\\"\\\\\\x41\\u00e9\\U0001F600\" ",
     {"a\n\t\"\\A\xC3\xA9\xF0\x9F\x98\x80"},
     {"a"}},
    {"classes and repeats",
     "root ::= [a-c]+ [^0-9]? \"x\"{2} \"y\"{1,} \"z\"{0,2} .",
     {"axxy!", "abc-xxyyyzz.", "axxyz"},
     {"a", "1xxy.", "axy.", "axxyzzzz"}},
    {"comments and lines",
     "# a grammar\nroot ::= a # first\n   | b\na ::= \"a\" ( # open\n \"b\"\n | \"c\" )*\nb ::= "
     "\"x\"\n",
     {"a", "abcb", "x"},
     {"b", "ax", ""}},
    {"an empty alternative",
     "root ::= \"(\" root \")\" |\nother ::= \"b\"",
     {"", "()", "((()))"},
     {"(", "())", "b"}},
    {"rules that begin with themselves",
     "root ::= root \"+\" term | root \"-\" term | term\nterm ::= [0-9] | \"(\" root \")\"",
     {"1", "1+2", "1+2-(3+4)", "(1)"},
     {"", "+1", "1+", "(1"}},
    {"a whole list in GBNF",
     "root ::= \"[\" ws ( item ( \",\" ws item )* )? \"]\"\nitem ::= [0-9]+\nws ::= [ \\t]*",
     {"[]", "[ 1]", "[1, 22,3]"},
     {"[1,]", "[", "[a]"}},
    {"lark",
     "start: greeting \" \" NAME\ngreeting: \"hello\"i | \"bye\" -> farewell\nNAME: "
     "\"a\"..\"z\"+\n",
     {"hello bob", "HeLLo x", "bye al"},
     {"hello", "bye Bob", "hello  bob"}},
    {"lark: imports and what is ignored",
     "%import common.INT\n%import common (WS, CNAME)\n%ignore WS\nstart: pair (\",\" pair)*\n"
     "pair: CNAME \"=\" INT // one\n",
     {"a=1", " a = 1 , b\n=22 ", "x_1=0"},
     {"a=", "a=1,", "1=a"}},
    {"lark: optional parts, counts, regular expressions",
     "start: [\"-\"] /[1-9]/ /[0-9]/ ~ 2 (\".\" /\\d/~1..3)?\n",
     {"123", "-123", "999.1", "100.123"},
     {"12", "023", "123.", "123.1234"}},
    {"lark: arithmetic that begins with itself",
     "?start: sum\n?sum: product | sum \"+\" product\n?product: atom | product \"*\" atom\n"
     "?atom: NUMBER | \"(\" sum \")\"\nNUMBER.2: /[0-9]+/\n",
     {"1", "1+2*3", "(1+2)*3+4"},
     {"1+", "*1", "()"}},
    {"lark: priorities and marks",
     "!start.1: _sep \"a\" _sep\n_sep: _DASH\n_DASH: \"-\"\n",
     {"-a-"},
     {"a", "--a"}},
};

static fx_status open_rules(gram_machine *m, const char *text, fx_error *err)
{
    uint32_t node = 0;
    *m = (gram_machine){0};
    const fx_status st = fxi_rules_add(&m->g, fxi_str_of(text), &node, err);
    return start_machine(m, st, node, err);
}

FX_TEST(test_grammars_accept_their_texts)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gram_machine w;
        fx_error err = {0};
        if (open_rules(&w, cases[i].grammar, &err)) fail_msg("%s: %s", cases[i].name, err.text);
        for (int k = 0; k < 8 && cases[i].yes[k]; k++)
            if (!machine_accepts(&w, cases[i].yes[k], strlen(cases[i].yes[k])))
                fail_msg("%s: \"%s\" is refused", cases[i].name, cases[i].yes[k]);
        for (int k = 0; k < 8 && cases[i].no[k]; k++)
            if (machine_accepts(&w, cases[i].no[k], strlen(cases[i].no[k])))
                fail_msg("%s: \"%s\" is accepted", cases[i].name, cases[i].no[k]);
        close_machine(&w);
    }
}

FX_TEST(test_refusals_name_what_and_where)
{
    static const struct {
        const char *grammar, *error;
    } rows[] = {
        {"", "no rule \"start\""},
        {"a ::= \"x\"", "no rule \"root\""},
        {"root ::= b", "rule \"b\" is not defined"},
        {"root ::= \"a", "without its closing quote in line 1"},
        {"root ::= \"a\"\nroot ::= \"b\"", "\"root\" is defined twice in line 2"},
        {"root ::= \"a\" )", "\")\" where a line should end"},
        {"root ::= (\"a\"", "a group without \")\""},
        {"root ::= \"\\q\"", "unknown escape (\\q)"},
        {"root ::= \"a\"{3,1}", "a repeat of 3 to 1 times"},
        {"root ::= [a-", "class"},
        {"root ::= a\na ::= b\nb ::= a \"x\" | \"y\"", "begins with itself"},
        {"root ::= root", "nothing matches"},
        {"start: x{\"a\"}\n", "a template (x{..})"},
        {"start: \"a\"\n%declare X\n", "%declare is not supported in line 2"},
        {"%import other.X\nstart: X\n", "%import of \"other\""},
        {"%import common.PYTHON\nstart: \"a\"\n", "\"PYTHON\" is not among"},
        {"start: /a/i\n", "the flags \"i\""},
        {"start: /a(?=b)/\n", "lookahead"},
        {"start: \"ab\"..\"c\"\n", "a range that is not of characters"},
        {"start \"a\"\n", "\":\" is missing after \"start\""},
        {"start: \"a\" ; \n", "\";\" where a text or a name should be"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gram_machine w;
        fx_error err = {0};
        const fx_status st = open_rules(&w, rows[i].grammar, &err);
        if (st != FX_EINVAL || !strstr(err.text, rows[i].error))
            fail_msg("%s: %d %s", rows[i].grammar, st, err.text);
        close_machine(&w);
    }
}

FX_RUN(test_rules)
