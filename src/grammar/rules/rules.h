// rules.h - grammars that people write: GBNF, the notation of llama.cpp (what has "::="), and a
// subset of Lark's.
//
// GBNF      name ::= "text" [a-z] [^"] . name (..) | * + ? {m} {m,} {m,n}   # comment
//           begins with `root`
// Lark      name: "text" "text"i "a".."z" /regex/ NAME name (..) [..] | * + ? ~m ~m..n -> alias
//           %import common.NAME, %ignore, // comment; begins with `start`
//
// A Lark grammar is a grammar over characters here: there is no lexer that prefers long matches.
// What %ignore names may stand behind every text, regex and NAME of a rule, and at the beginning.
//
// A rule may begin with itself (a: a "x" | "y"); rules that do so by way of each other are refused
// by name when the form is finished.
#ifndef FXI_GRAMMAR_RULES_H
#define FXI_GRAMMAR_RULES_H

#include "grammar/form/gram_form.h"

// Errors: FX_EINVAL (what is not supported or not known, and in which line), FX_ENOMEM.
fx_status fxi_rules_add(fxi_gram *g, fxi_str text, uint32_t *node, fx_error *err);

#endif
