// gram.h - a context-free grammar over bytes, as data: front ends (regular expressions, JSON
// Schema, GBNF and Lark) make it, the automaton runs it.
//
// A grammar is an array of nodes. A node is a text, a set of bytes, a sequence, a choice, a repeat
// or a reference to a rule; rules may refer to themselves. A node may be used in several places.
// Repeats are counters and never written out: a{0,100000} is one node.
//
//     never    nothing: no string matches     text     these bytes, perhaps none
//     set      one byte of a set              seq      one node after the other
//     alt      any of the nodes               repeat   a node, min to max times
//     ref      a rule
//
// One thread builds a grammar; after fxi_gram_finish it is immutable and any thread may read it.
#ifndef FXI_GRAMMAR_GRAM_H
#define FXI_GRAMMAR_GRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/text/buf.h"
#include "base/text/str.h"

typedef struct fxi_byte_set {
    uint64_t word[4]; // bit b % 64 of word b / 64: byte b is in the set
} fxi_byte_set;

static inline bool fxi_byte_in(const fxi_byte_set *s, uint8_t b)
{
    return s->word[b >> 6] >> (b & 63) & 1;
}

static inline void fxi_byte_put(fxi_byte_set *s, uint8_t b)
{
    s->word[b >> 6] |= (uint64_t)1 << (b & 63);
}

static inline bool fxi_byte_any(const fxi_byte_set *s)
{
    return s->word[0] || s->word[1] || s->word[2] || s->word[3];
}

typedef enum fxi_gram_kind {
    FXI_GRAM_NEVER,
    FXI_GRAM_TEXT,
    FXI_GRAM_SET,
    FXI_GRAM_SEQ,
    FXI_GRAM_ALT,
    FXI_GRAM_REPEAT,
    FXI_GRAM_REF,
    FXI_GRAM_N_KIND
} fxi_gram_kind;

enum { FXI_GRAM_MAX_SIZE = 1 << 20 }; // of each: nodes, nodes used by others, bytes of text
#define FXI_GRAM_NO_MAX UINT32_MAX    // of a repeat

typedef struct fxi_gram_node {
    uint8_t kind;
    bool nullable;     // matches "". This and the next: known after fxi_gram_finish
    bool productive;   // matches anything at all
    uint32_t at;       // text: in text; set: in set; seq, alt: in kid; repeat: a node; ref: a rule
    uint32_t n;        // text: bytes; seq, alt: nodes
    uint32_t min, max; // repeat
} fxi_gram_node;

typedef struct fxi_gram_rule {
    uint32_t node;
    uint32_t name, n_name; // in text
    bool defined;
} fxi_gram_rule;

typedef struct fxi_gram { // all zero: empty
    fxi_gram_node *node;  // [n_node] node 0 is never
    uint32_t *kid;        // [n_kid]
    fxi_byte_set *set;    // [n_set]
    fxi_gram_rule *rule;  // [n_rule]
    fxi_buf text;
    size_t n_node, n_kid, n_set, n_rule;
    size_t cap_node, cap_kid, cap_set, cap_rule;
    uint32_t root;
    fx_status broken; // the first failure while it was built
} fxi_gram;

void fxi_gram_free(fxi_gram *g);            // empty again
size_t fxi_gram_n_bytes(const fxi_gram *g); // memory that its arrays hold

// ---- building -----------------------------------------------------------------------------------
//
// Each call adds a node and returns its number. A call that fails (no memory; more than
// FXI_GRAM_MAX_SIZE) returns 0, the node that matches nothing, and fxi_gram_finish reports the
// error, so front ends need not check. Nodes that are passed must be numbers that these calls
// returned.

uint32_t fxi_gram_text(fxi_gram *g, const void *bytes, size_t n);
uint32_t fxi_gram_set(fxi_gram *g, const fxi_byte_set *s);
uint32_t fxi_gram_seq(fxi_gram *g, const uint32_t *node, size_t n);
uint32_t fxi_gram_alt(fxi_gram *g, const uint32_t *node, size_t n);
// Pre: min <= max. max = FXI_GRAM_NO_MAX: any number of times.
uint32_t fxi_gram_repeat(fxi_gram *g, uint32_t node, uint32_t min, uint32_t max);
// Adds a rule without a definition and returns its number, for the next two. Copies the name.
uint32_t fxi_gram_rule_add(fxi_gram *g, fxi_str name);
void fxi_gram_rule_define(fxi_gram *g, uint32_t rule, uint32_t node);
uint32_t fxi_gram_ref(fxi_gram *g, uint32_t rule);

static inline uint32_t fxi_gram_str(fxi_gram *g, const char *text)
{
    return fxi_gram_text(g, text, strlen(text));
}

// A sequence, or a choice, of the nodes given as arguments.
#define FXI_NODE_LIST(...) \
    (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define FXI_SEQ_OF(g, ...) fxi_gram_seq((g), FXI_NODE_LIST(__VA_ARGS__))
#define FXI_ALT_OF(g, ...) fxi_gram_alt((g), FXI_NODE_LIST(__VA_ARGS__))

// Nodes on the heap, collected by a front end. All zero: empty.
typedef struct fxi_node_list {
    uint32_t *node;
    size_t n, cap;
    bool failed; // out of memory
} fxi_node_list;

void fxi_node_list_add(fxi_node_list *l, uint32_t node);
// The nodes of the list, which it frees, as a sequence or a choice (FXI_GRAM_SEQ, FXI_GRAM_ALT).
uint32_t fxi_gram_list(fxi_gram *g, fxi_gram_kind kind, fxi_node_list *l);

// Checks the grammar and makes it ready to run with this root. Errors: FX_EINVAL (a rule without a
// definition or one that begins with itself, each by its name; nothing matches; the grammar is too
// large), FX_ENOMEM.
fx_status fxi_gram_finish(fxi_gram *g, uint32_t root, fx_error *err);

// ---- sets of characters -------------------------------------------------------------------------

// Sets of Unicode characters, and the node that matches one character of a set, spelled in UTF-8
// or as in a JSON string.

typedef struct fxi_char_range {
    uint32_t lo, hi; // both included
} fxi_char_range;

typedef struct fxi_char_set { // all zero: empty
    fxi_char_range *range;
    size_t n, cap;
    bool failed; // out of memory
} fxi_char_set;

void fxi_char_set_free(fxi_char_set *s); // empty again
void fxi_char_set_add(fxi_char_set *s, uint32_t lo, uint32_t hi);
void fxi_char_set_join(fxi_char_set *s, const fxi_char_set *more);
void fxi_char_set_invert(fxi_char_set *s); // the other characters, U+0000 to U+10FFFF

typedef enum fxi_gram_spelling {
    FXI_SPELL_UTF8,
    // Inside a JSON string (RFC 8259, section 7): a quote, a backslash and the characters below
    // U+0020 are escaped, in the short form if there is one; all others stand for themselves. So
    // every text has one spelling.
    FXI_SPELL_JSON,
} fxi_gram_spelling;

// One character of the set, which it frees; surrogates are never matched.
uint32_t fxi_gram_chars(fxi_gram *g, fxi_char_set *s, fxi_gram_spelling spelling);
// One character of lo..hi.
uint32_t fxi_gram_char_range(fxi_gram *g, uint32_t lo, uint32_t hi, fxi_gram_spelling spelling);
// This text, which must be valid UTF-8.
uint32_t fxi_gram_spell(fxi_gram *g, fxi_str text, fxi_gram_spelling spelling);

#endif
