// test_gram_allocation.c - every allocation of the compilers, of the automaton and of the masks
// fails once: the error is FX_ENOMEM, nothing leaks (with LeakSanitizer), and what was made before
// stays usable. And what a schema may make the compiler allocate.
#include "json_doc.h"
#include "unit/cmocka_all.h"
#include "unit/wrapped_memory.h"

#include <stdlib.h>

#include "grammar/matcher/gram_matcher.h"
#include "grammar/schema/schema.h"
#include "grammar/syntax/gram_parts.h"
#include "grammar/syntax/gram_regex.h"
#include "grammar/syntax/gram_rules.h"

static long n_left = -1;     // allocations that still succeed; < 0: all do
static size_t n_asked_bytes; // so far

static bool fails_now(size_t n_bytes)
{
    n_asked_bytes += n_bytes;
    if (n_left < 0) return false;
    return n_left-- == 0; // this one alone
}

// ---- what is compiled ---------------------------------------------------------------------------

typedef fx_status compiler(fxi_gram *g, const void *source, uint32_t *node, fx_error *err);

static fx_status compile_schema(fxi_gram *g, const void *source, uint32_t *node, fx_error *err)
{
    fxi_gram_json json;
    const fx_status st = fxi_gram_json_add(g, &json, err);
    return st ? st : fxi_schema_add(g, &json, &(fxi_schema_ask){.schema = source}, node, err);
}

static fx_status compile_regex(fxi_gram *g, const void *source, uint32_t *node, fx_error *err)
{
    return fxi_gram_regex(g, fxi_str_of(source), FXI_GRAM_SEARCH, FXI_SPELL_JSON, node, err);
}

static fx_status compile_rules(fxi_gram *g, const void *source, uint32_t *node, fx_error *err)
{
    return fxi_rules_add(g, fxi_str_of(source), node, err);
}

static fx_status compile_without(fxi_gram *g, const void *source, uint32_t *node, fx_error *err)
{
    const fxi_str mark[] = {fxi_str_of(source), fxi_str_of("ab")};
    return fxi_gram_without(g, mark, 2, node, err);
}

static bool spell_byte(void *ud, fxi_str text, int32_t *tok, size_t *n_tok)
{
    (void)ud;
    *tok = (uint8_t)text.p[0];
    *n_tok = text.n;
    return true;
}

// ---- the sweep ----------------------------------------------------------------------------------

static fx_status follow_matcher(fxi_gram_matcher *matcher, fx_error *err)
{
    uint64_t mask[8];
    int32_t tok[12], forced[4];
    size_t n_forced;
    fxi_match_state at = {0};
    for (size_t n = 0; n < 12; n++) {
        int32_t next = 0;
        FX_TRY(fxi_gram_matcher_forced(matcher, tok, n, &at, forced, 4, &n_forced, err));
        FX_TRY(fxi_gram_matcher_mask(matcher, tok, n, &at, mask, err));
        while (next < 256 && !(mask[next / 64] >> (next % 64) & 1)) next++;
        if (next == 256) return FX_OK;
        tok[n] = next;
    }
    return FX_OK;
}

static fx_status run_all(compiler *compile, const void *source, fx_error *err)
{
    static char bytes[256];
    fxi_str token[256];
    fxi_gram_tokens tokens;
    fxi_gram g = {0};
    fxi_gram_matcher *matcher = NULL;
    uint32_t node = 0;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        token[i] = (fxi_str){&bytes[i], 1};
    }
    FX_TRY(fxi_gram_tokens_make(&tokens, token, 256, err));
    fx_status st = compile(&g, source, &node, err);
    if (!st) st = fxi_gram_finish(&g, node, err);
    const fxi_matcher_limits limits = {.max_set = 4096, .max_mask = 4};
    if (!st)
        st = fxi_gram_matcher_make(&g, &tokens, (fxi_matcher_speller){.first = spell_byte}, limits,
                                   &matcher, err);
    if (!st) st = follow_matcher(matcher, err);
    n_left = -1;
    if (matcher && st) assert_int_equal(follow_matcher(matcher, err), FX_OK); // usable again
    fxi_gram_matcher_free(matcher);
    fxi_gram_free(&g);
    fxi_gram_tokens_free(&tokens);
    return st;
}

static void sweep(compiler *compile, const void *source)
{
    fx_status st = FX_ENOMEM;
    long n = 0;
    for (; st == FX_ENOMEM; n++) {
        fx_error err = {0};
        n_left = n;
        st = run_all(compile, source, &err);
        n_left = -1;
        if (st != FX_OK && st != FX_ENOMEM) fail_msg("allocation %ld: %s", n, err.text);
    }
    assert_true(n > 20);
}

FX_TEST(test_compilers_survive_every_failure)
{
    fxi_json_doc schema_doc = json_doc_of(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^x|y$\","
        "\"maxLength\":3},\"b\":{\"oneOf\":[{\"type\":\"integer\",\"minimum\":2},{\"const\":[\"q\"]"
        "}]},"
        "\"c\":{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#\"}]}},\"required\":[\"a\"],"
        "\"patternProperties\":{\"^z\":true},\"additionalProperties\":false}");
    const fxi_json *schema = schema_doc.root;
    assert_non_null(schema);
    sweep(compile_schema, schema);
    sweep(compile_regex, "^(a|[^b-d]{2,4})+\\d?$|x");
    sweep(compile_rules, "root ::= root \"+\" t | t\nt ::= [0-9]{1,3} | \"(\" root \")\" # c");
    sweep(compile_rules,
          "%import common (INT, WS)\n%ignore WS\nstart: \"a\"i INT ~1..2 (/x+/ | \"q\"..\"z\")?\n");
    sweep(compile_without, "<tool_call>");
    fxi_json_doc_free(&schema_doc);
}

// What the compiler asks for, arrays that grow each time, to read a schema.
static void check_schema_bytes(fxi_buf *schema, size_t max_bytes)
{
    fxi_gram g = {0};
    fx_error err = {0};
    uint32_t node = 0;
    fxi_json_doc doc = json_doc_sized(schema->p, schema->n);
    assert_non_null(doc.root);
    n_asked_bytes = 0;
    const fx_status st = compile_schema(&g, doc.root, &node, &err);
    assert_true(st == FX_OK || st == FX_EINVAL);
    assert_in_range(n_asked_bytes, 0, max_bytes);
    fxi_gram_free(&g);
    fxi_json_doc_free(&doc);
    fxi_buf_free(schema);
}

// Alternatives and objects take memory for what they have, not for what they might have.
FX_TEST(test_parts_of_a_schema_take_little_memory)
{
    enum { N_WAY = 40000, N_MEMBER = 3000 };
    fxi_buf ways = {0}, members = {0};
    for (int i = 0; i < N_WAY; i++)
        fxi_buf_fmt(&ways, "%s{\"const\":%d}", i ? "," : "{\"anyOf\":[", i);
    fxi_buf_str(&ways, "]}");
    for (int i = 0; i < N_MEMBER; i++)
        fxi_buf_fmt(&members, "%s\"m%d\":{\"type\":\"object\",\"additionalProperties\":false}",
                    i ? "," : "{\"properties\":{", i);
    fxi_buf_str(&members, "}}");
    check_schema_bytes(&ways, N_WAY * 1000);
    check_schema_bytes(&members, N_MEMBER * 10000);
}

FX_RUN(test_gram_allocation)
