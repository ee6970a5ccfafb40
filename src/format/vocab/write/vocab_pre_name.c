// vocab_pre_name.c - recognises a pre-tokenizer that GGUF has a name for. A tokenizer.json spells
// its patterns differently from the table of names, so they are compared by what they do: both cut
// a text that has every kind of case.
#include <stdlib.h>
#include <string.h>

#include "format/vocab/lookup/vocab_regex.h"
#include "format/vocab/write/vocab_write.h"

// Contractions in both cases, numbers of one to seven digits, letters of many scripts, marks, runs
// of spaces and lines, punctuation beside everything.
static const char probe[] =
    "I'm you'RE it's They'LL can'T we'd'v 'tis x'x  a  b   c\td \n e\n\n  f\r\n\r\n g \n"
    "1 12 123 1234 12345 1234567 a1b22c333 3.14 1,000,000 $5 50% #1 v2.0 "
    "\xC2\xB2\xC2\xBD\xE2\x85\xA7 "
    "HelloWorld camelCase XMLHttp ABCdef iPhone USA's O'Neil \xC3\x89t\xC3\xA9 na\xC3\xAFve "
    "stra\xC3\x9F"
    "e \xCE\xB1\xCE\xB2\xCE\x93 \xD0\x9F\xD1\x80\xD0\xB8 "
    "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82\xE3\x81\x93\xE3\x82\x93\xE3\x83"
    "\x8A"
    "\xED\x95\x9C\xEA\xB5\xAD \xE0\xA4\x95\xE0\xA4\xBE\xE0\xA4\xB2 e\xCC\x81 \xD8\xA7\xD9\x84 "
    "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD !!! ... ?! (a) [b]{c} <d/> a/b a//b \\n_x_ "
    "--y "
    "f(x)=y; \"q\" 'r' `s` ~t^u| \xE2\x80\x94 \xE2\x80\xA6 \xC2\xA0z\xC2\xA0\xC2\xA0 .\n,\n\n;/\n "
    "end  ";

enum { N_PROBE = sizeof probe - 1 };

typedef struct probe_cuts {
    bool at[N_PROBE + 1]; // a word begins here
} probe_cuts;

// Marks where words begin within the word probe[from, to).
static bool cut_word(const fxi_regex *re, fxi_matcher *m, size_t from, size_t to, probe_cuts *cuts)
{
    fxi_regex_match hit = {0, 0};
    for (size_t at = 0; at < to - from; at = hit.to + (hit.to == hit.from)) {
        if (fxi_regex_next(re, m, probe + from, to - from, at, &hit, NULL) != FX_OK) return false;
        if (hit.from == SIZE_MAX) break;
        cuts->at[from + hit.from] = true;
        cuts->at[from + hit.to] = true;
    }
    return true;
}

// Cuts each word of the text by one pattern. False: the pattern cannot be used.
static bool cut_step(const fxi_split *split, fxi_matcher *m, probe_cuts *cuts)
{
    fxi_regex *re;
    if (fxi_regex_compile(split->pattern, split->bytes, &re, NULL) != FX_OK) return false;
    const probe_cuts before = *cuts;
    bool ok = true;
    for (size_t from = 0, to; ok && from < N_PROBE; from = to) {
        for (to = from + 1; to < N_PROBE && !before.at[to]; to++) continue;
        ok = cut_word(re, m, from, to, cuts);
    }
    fxi_regex_free(re);
    return ok;
}

// False: the spec has steps that no named pre-tokenizer has.
static bool cut_probe(const fxi_vocab_spec *s, fxi_matcher *m, probe_cuts *cuts)
{
    *cuts = (probe_cuts){{true}};
    for (size_t i = 0; i < s->n_split; i++) {
        const fxi_split *p = &s->split[i];
        if (p->how != FXI_SPLIT_ISOLATED || p->invert || !cut_step(p, m, cuts)) return false;
    }
    return true;
}

static bool same_norms(const fxi_vocab_spec *a, const fxi_vocab_spec *b)
{
    if (a->n_norm != b->n_norm) return false;
    for (size_t i = 0; i < a->n_norm; i++)
        if (a->norm[i].kind != b->norm[i].kind) return false;
    return true;
}

static bool is_like(const fxi_vocab_spec *s, const probe_cuts *cuts, const char *name,
                    fxi_matcher *m)
{
    fxi_vocab_spec known;
    probe_cuts other;
    fxi_vocab_spec_init(&known, name);
    const bool like = fxi_spec_add_pre(&known, fxi_str_of(name), NULL) == FX_OK &&
                      same_norms(s, &known) && known.whole_words == s->whole_words &&
                      cut_probe(&known, m, &other) && !memcmp(&other, cuts, sizeof other);
    fxi_vocab_spec_free(&known);
    return like;
}

const char *fxi_spec_pre_name(const fxi_vocab_spec *s)
{
    static const char *const names[] = {
        "llama-bpe",   "qwen2",  "gpt-2",     "smollm",       "tekken",
        "gpt-4o",      "gpt-4",  "stablelm2", "deepseek-llm", "deepseek-coder",
        "deepseek-v3", "falcon", "bloom",     "viking",       "qwen35"};
    probe_cuts cuts;
    const char *hit = NULL;
    fxi_matcher *m = fxi_matcher_new();
    if (m && cut_probe(s, m, &cuts))
        for (size_t i = 0; !hit && i < sizeof names / sizeof *names; i++)
            if (is_like(s, &cuts, names[i], m)) hit = names[i];
    fxi_matcher_free(m);
    return hit;
}
