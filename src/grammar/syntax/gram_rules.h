// gram_rules.h - grammars that people write: GBNF, the notation of llama.cpp (a text that contains
// "::="), and a subset of Lark's.
//
// GBNF      name ::= "text" [a-z] [^"] . name (..) | * + ? {m} {m,} {m,n}   # comment
//           starts with `root`
// Lark      name: "text" "text"i "a".."z" /regex/ NAME name (..) [..] | * + ? ~m ~m..n -> alias
//           %import common.NAME, %ignore, // comment; starts with `start`
//
// A Lark grammar is read as a grammar over characters: there is no lexer that prefers long matches.
// What %ignore names may follow every text, regex and NAME of a rule, and may stand at the
// beginning.
//
// A rule may begin with itself (a: a "x" | "y"). Rules that do so through each other are refused by
// name when the grammar is finished.
#ifndef FXI_GRAMMAR_RULES_H
#define FXI_GRAMMAR_RULES_H

#include "grammar/syntax/gram.h"

// Errors: FX_EINVAL (what is unknown or not supported, and in which line), FX_ENOMEM.
fx_status fxi_rules_add(fxi_gram *g, fxi_str text, uint32_t *node, fx_error *err);

#endif
