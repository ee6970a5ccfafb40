// grammar_parts.c - the parts of a public grammar as nodes of a grammar.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/utf8.h"
#include "engine/grammar/grammars.h"
#include "format/vocab.h"
#include "grammar/schema/schema.h"
#include "grammar/syntax/gram_parts.h"
#include "grammar/syntax/gram_regex.h"
#include "grammar/syntax/gram_rules.h"

typedef struct part_reader {
    fxi_gram *g;
    const fxi_vocab *vocab;
    fx_error *err;
    int depth;
    fxi_gram_json json; // added with the first part that needs it
    bool has_json;
    const char *schema; // the text of schema_doc: parts of one schema often come in a row
    size_t schema_bytes;
    fxi_json_doc schema_doc;
} part_reader;

typedef fx_status part_rule(part_reader *r, const fx_part *p, uint32_t *node);

static fx_status read_part(part_reader *r, const fx_part *p, uint32_t *node);

static fx_status no_part_memory(part_reader *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "no memory for a grammar");
}

static fxi_str text_of_part(const fx_part *p)
{
    return (fxi_str){p->n_bytes ? p->text : "", p->n_bytes};
}

// ---- texts --------------------------------------------------------------------------------------

static fx_status read_text_part(part_reader *r, const fx_part *p, uint32_t *node)
{
    const fxi_str s = text_of_part(p);
    const size_t bad = fxi_utf8_check(s.p, s.n);
    if (bad < s.n) return fxi_fail(r->err, FX_EINVAL, "a text is not UTF-8 at byte %zu", bad);
    *node = fxi_gram_text(r->g, s.p, s.n);
    return FX_OK;
}

static fx_status read_control(part_reader *r, const fx_part *p, uint32_t *node)
{
    const fxi_str s = text_of_part(p);
    const int32_t id = fxi_vocab_find(r->vocab, s.p, s.n);
    if (id < 0 || !fxi_vocab_control(r->vocab, id))
        return fxi_fail(r->err, FX_EINVAL, "the vocabulary has no control token \"%.*s\"",
                        s.n > 80 ? 80 : (int)s.n, s.p);
    const uint32_t part[] = {fxi_gram_text(r->g, FXI_CONTROL_MARK, 1),
                             fxi_gram_text(r->g, s.p, s.n),
                             fxi_gram_text(r->g, FXI_CONTROL_MARK, 1)};
    *node = fxi_gram_seq(r->g, part, 3);
    return FX_OK;
}

static fx_status read_free(part_reader *r, const fx_part *p, uint32_t *node)
{
    fxi_str *mark = calloc(p->n_part + 1, sizeof *mark);
    if (!mark) return no_part_memory(r);
    for (size_t i = 0; i < p->n_part; i++) mark[i] = text_of_part(&p->part[i]);
    const fx_status st = fxi_gram_without(r->g, mark, p->n_part, node, r->err);
    free(mark);
    return st;
}

static fx_status read_pattern(part_reader *r, const fx_part *p, uint32_t *node)
{
    return fxi_gram_regex(r->g, text_of_part(p), 0, FXI_SPELL_UTF8, node, r->err);
}

// ---- JSON ---------------------------------------------------------------------------------------

static fx_status need_json(part_reader *r)
{
    if (!r->has_json) FX_TRY(fxi_gram_json_add(r->g, &r->json, r->err));
    r->has_json = true;
    return FX_OK;
}

static fx_status read_json_object(part_reader *r, const fx_part *p, uint32_t *node)
{
    (void)p;
    FX_TRY(need_json(r));
    *node = r->json.object;
    return FX_OK;
}

// As many bytes as a member's name may have, and more.
enum { MAX_POINTER = 2048, MAX_WITHOUT = 16 };

static fx_status copy_text(part_reader *r, const fx_part *p, char *out, size_t cap)
{
    const fxi_str s = text_of_part(p);
    if (s.n >= cap) return fxi_fail(r->err, FX_EINVAL, "a text has more than %zu bytes", cap - 1);
    memcpy(out, s.p, s.n);
    out[s.n] = 0;
    return FX_OK;
}

// *out: NULL: any value.
static fx_status read_schema_text(part_reader *r, const fx_part *p, const fxi_json **out)
{
    static const fxi_json_rules rules = {0};
    fx_error e;
    *out = NULL;
    if (!p->schema) return FX_OK;
    if (p->schema != r->schema || p->schema_bytes != r->schema_bytes) {
        fxi_json_doc_free(&r->schema_doc);
        r->schema = NULL;
        const fx_status st =
            fxi_json_parse(&r->schema_doc, (fxi_str){p->schema, p->schema_bytes}, &rules, &e);
        if (st == FX_ENOMEM) return no_part_memory(r);
        if (st != FX_OK)
            return fxi_fail(r->err, FX_EINVAL, "schema: %s%s", st == FX_EFORMAT ? "not JSON: " : "",
                            e.text);
        r->schema = p->schema;
        r->schema_bytes = p->schema_bytes;
    }
    *out = r->schema_doc.root;
    return FX_OK;
}

static fx_status read_schema_part(part_reader *r, const fx_part *p, uint32_t *node)
{
    char at[MAX_POINTER];
    fxi_schema_ask ask = {.at = at, .only_objects = p->kind == FX_PART_OBJECT};
    FX_TRY(read_schema_text(r, p, &ask.schema));
    FX_TRY(copy_text(r, p, at, sizeof at));
    FX_TRY(need_json(r));
    return fxi_schema_add(r->g, &r->json, &ask, node, r->err);
}

static fx_status read_string_part(part_reader *r, const fx_part *p, uint32_t *node)
{
    char at[MAX_POINTER], pattern[MAX_WITHOUT][256];
    fxi_str mark[MAX_WITHOUT];
    const char *patterns[MAX_WITHOUT];
    fxi_schema_ask ask = {.at = at, .mark = mark, .pattern = patterns};
    FX_TRY(read_schema_text(r, p, &ask.schema));
    FX_TRY(copy_text(r, p, at, sizeof at));
    if (p->n_part > MAX_WITHOUT)
        return fxi_fail(r->err, FX_EINVAL, "a string without more than %d texts", MAX_WITHOUT);
    for (size_t i = 0; i < p->n_part; i++) {
        const fx_part *not = &p->part[i];
        if (not ->kind == FX_PART_TEXT) {
            mark[ask.n_mark++] = text_of_part(not );
            continue;
        }
        FX_TRY(copy_text(r, not, pattern[ask.n_pattern], sizeof pattern[0]));
        patterns[ask.n_pattern] = pattern[ask.n_pattern];
        ask.n_pattern++;
    }
    return fxi_schema_add(r->g, NULL, &ask, node, r->err);
}

static fx_status read_rules_part(part_reader *r, const fx_part *p, uint32_t *node)
{
    return fxi_rules_add(r->g, text_of_part(p), node, r->err);
}

// ---- parts of parts -----------------------------------------------------------------------------

// All of them, or one.
static fx_status read_list(part_reader *r, const fx_part *p, uint32_t *node)
{
    const bool is_choice = p->kind == FX_PART_ALT;
    fx_status st = FX_OK;
    if (is_choice && !p->n_part)
        return fxi_fail(r->err, FX_EINVAL, "there is nothing to choose from");
    uint32_t *kid = calloc(p->n_part + 1, sizeof *kid);
    if (!kid) return no_part_memory(r);
    for (size_t i = 0; !st && i < p->n_part; i++) st = read_part(r, &p->part[i], &kid[i]);
    if (!st) *node = (is_choice ? fxi_gram_alt : fxi_gram_seq)(r->g, kid, p->n_part);
    free(kid);
    return st;
}

static fx_status read_repetition(part_reader *r, const fx_part *p, uint32_t *node)
{
    uint32_t body = 0;
    if (p->n_part != 1 || p->min > p->max)
        return fxi_fail(r->err, FX_EINVAL, "a part is repeated %u to %u times", p->min, p->max);
    FX_TRY(read_part(r, p->part, &body));
    *node = fxi_gram_repeat(r->g, body, p->min, p->max);
    return FX_OK;
}

static part_rule *const part_rules[FX_N_PART] = {
    [FX_PART_TEXT] = read_text_part,     [FX_PART_CONTROL] = read_control,
    [FX_PART_SEQ] = read_list,           [FX_PART_ALT] = read_list,
    [FX_PART_REPEAT] = read_repetition,  [FX_PART_FREE] = read_free,
    [FX_PART_REGEX] = read_pattern,      [FX_PART_JSON] = read_json_object,
    [FX_PART_SCHEMA] = read_schema_part, [FX_PART_OBJECT] = read_schema_part,
    [FX_PART_STRING] = read_string_part, [FX_PART_RULES] = read_rules_part,
};

static fx_status read_part(part_reader *r, const fx_part *p, uint32_t *node)
{
    if (p->kind < 0 || p->kind >= FX_N_PART || !part_rules[p->kind])
        return fxi_fail(r->err, FX_EINVAL, "a part of kind %d is not known", (int)p->kind);
    if (r->depth >= FX_PART_MAX_DEPTH)
        return fxi_fail(r->err, FX_EINVAL, "parts are nested deeper than %d", FX_PART_MAX_DEPTH);
    r->depth++;
    FX_TRY(part_rules[p->kind](r, p, node));
    r->depth--;
    return FX_OK;
}

fx_status fxi_grammar_part(fxi_gram *g, const struct fxi_vocab *vocab, const fx_part *root,
                           uint32_t *node, fx_error *err)
{
    part_reader r = {.g = g, .vocab = vocab, .err = err};
    const fx_status st = read_part(&r, root, node);
    fxi_json_doc_free(&r.schema_doc);
    return st;
}
