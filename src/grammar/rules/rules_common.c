// rules_common.c - terminals of Lark's library `common`, as regular expressions.
#include "grammar/rules/rules_parts.h"

#define INT     "[0-9]+"
#define DECIMAL "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXP     "[eE][+-]?[0-9]+"
#define FLOAT   "(?:" INT EXP "|" DECIMAL "(?:" EXP ")?)"

static const struct common_row {
    const char *name, *pattern;
} common_rows[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9A-Fa-f]"},
    {"INT", INT},
    {"SIGNED_INT", "[+-]?" INT},
    {"DECIMAL", DECIMAL},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", "[+-]?" FLOAT},
    {"NUMBER", "(?:" FLOAT "|" INT ")"},
    {"SIGNED_NUMBER", "[+-]?(?:" FLOAT "|" INT ")"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

const char *fxi_rules_common(fxi_str name)
{
    for (size_t i = 0; i < sizeof common_rows / sizeof *common_rows; i++)
        if (fxi_str_is(name, common_rows[i].name)) return common_rows[i].pattern;
    return NULL;
}
