// rules_parts.h - what the readers of grammars share.
//
//   rules_read.c     statements: rules and directives
//   rules_ways.c     the right side of a rule: alternatives, sequences, repeats, groups
//   rules_atom.c     texts, classes, regular expressions, names
//   rules_text.c     blanks, comments, names; where an error is
//   rules_common.c   the terminals of Lark's library
#ifndef FXI_GRAMMAR_RULES_PARTS_H
#define FXI_GRAMMAR_RULES_PARTS_H

#include "grammar/rules/rules.h"

typedef struct fxi_rule_name {
    fxi_str name;
    uint32_t rule;
} fxi_rule_name;

typedef struct fxi_rule_reader {
    fxi_gram *g;
    fxi_str s;
    size_t at;
    fx_error *err;
    bool is_lark;
    int depth;           // groups that are open
    fxi_rule_name *name; // [n_name]
    size_t n_name, cap_name;
    uint32_t current; // the rule that is being read
    bool in_terminal; // it is a NAME of Lark's: nothing is ignored in it
    uint32_t ignored; // rule: texts that are ignored
    uint32_t *ignore; // [n_ignore] their nodes
    size_t n_ignore, cap_ignore;
} fxi_rule_reader;

typedef struct fxi_rule_list { // nodes on the heap
    uint32_t *node;
    size_t n, cap;
} fxi_rule_list;

// rules_text.c
__attribute__((format(printf, 2, 3))) fx_status fxi_rules_refuse(const fxi_rule_reader *r,
                                                                 const char *fmt, ...);
fx_status fxi_rules_no_memory(const fxi_rule_reader *r);
char fxi_rules_next(const fxi_rule_reader *r); // for a message; '?' at the end or for no ASCII
bool fxi_rules_take(fxi_rule_reader *r, const char *text); // if it comes next
bool fxi_rules_is_next(const fxi_rule_reader *r, const char *text);
void fxi_rules_skip(fxi_rule_reader *r, bool lines); // blanks and comments; ends of lines, too
// The name that comes next; n 0: none does.
fxi_str fxi_rules_take_name(fxi_rule_reader *r);
fx_status fxi_rules_list(const fxi_rule_reader *r, fxi_rule_list *l, uint32_t node);
bool fxi_rules_is_terminal(fxi_str name); // NAME or _NAME
// The rule of this name, which is added when it is named first.
fx_status fxi_rules_find(fxi_rule_reader *r, fxi_str name, uint32_t *rule);

// rules_common.c: a regular expression; NULL: not known.
const char *fxi_rules_common(fxi_str name);

// rules_atom.c. *is_self: it is the name of the current rule.
fx_status fxi_rules_atom(fxi_rule_reader *r, uint32_t *node, bool *is_self);

// rules_ways.c: up to the end of the rule, or of the group.
fx_status fxi_rules_ways(fxi_rule_reader *r, uint32_t *node);

#endif
