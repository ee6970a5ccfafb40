// schema_walks.c - writes what the grammars of schemas write at random, for another program to
// judge.
//
//   schema_walks VECTORS N
//
// N walks for each group of the vectors. Those that come to an end are written: the group's number,
// a tab, the text and a NUL. A walk that stops where neither an end nor a byte is allowed ends the
// program with 1. A line on stderr has the counts.
#include "json_doc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "grammar/automaton/gram_auto.h"
#include "grammar/schema/schema.h"

enum { MAX_TEXT = 2000 };

typedef struct walk_counts {
    size_t n_walk, n_end;
} walk_counts;

// A byte that may come next: mostly a mark of JSON, so that values come to an end.
static int draw_walk_byte(const fxi_byte_set *may, uint64_t seed, uint64_t i)
{
    static const char marks[] = "\"}],:01\\";
    const uint64_t r = fxi_rng_u64(seed, 1, i);
    const size_t n = sizeof marks - 1;
    for (size_t k = 0; r % 3 && k < n; k++) {
        const uint8_t b = (uint8_t)marks[i > MAX_TEXT / 4 ? k : (k + (r >> 8)) % n];
        if (fxi_byte_in(may, b)) return b;
    }
    for (uint32_t k = 0; k < 256; k++) {
        const uint8_t b = (uint8_t)(k + (r >> 16));
        if (fxi_byte_in(may, b)) return b;
    }
    return -1;
}

// The length of a text at random in s; -1: it came to no end; -2: it stopped where it may not.
static int walk_text(fxi_auto *a, uint64_t seed, char s[MAX_TEXT])
{
    uint32_t at = fxi_auto_start(a);
    for (int n = 0; n < MAX_TEXT; n++) {
        const fxi_byte_set may = fxi_auto_bytes(a, at);
        const int byte = draw_walk_byte(&may, seed, (uint64_t)n);
        const bool ends = fxi_auto_is_final(a, at);
        if (ends && (byte < 0 || fxi_rng_u64(seed, 2, (uint64_t)n) % 3 == 0)) return n;
        if (byte < 0) return -2;
        s[n] = (char)byte;
        if (fxi_auto_step(a, at, (uint8_t)byte, &at, NULL)) return -1; // a limit
    }
    return -1;
}

static bool walk_group(size_t group, fxi_auto *a, int n_walk, walk_counts *c)
{
    char s[MAX_TEXT];
    for (int i = 0; i < n_walk; i++) {
        const int n = walk_text(a, group << 32 | (uint64_t)i, s);
        if (n == -2) return false;
        c->n_walk++;
        c->n_end += n >= 0;
        if (n >= 0) printf("%zu\t%.*s%c", group, n, s, 0);
    }
    return true;
}

// Groups that nothing satisfies are left out.
static bool run_group(size_t group, const fxi_json *schema, int n_walk, walk_counts *c)
{
    fxi_gram g = {0};
    fxi_gram_json json;
    fxi_auto *a = NULL;
    uint32_t node = 0;
    bool ok = true;
    fx_status st = fxi_gram_json_add(&g, &json, NULL);
    if (!st) st = fxi_schema_add(&g, &json, &(fxi_schema_ask){.schema = schema}, &node, NULL);
    if (!st) st = fxi_gram_finish(&g, node, NULL);
    if (!st) st = fxi_auto_make(&g, 1 << 20, &a, NULL);
    if (!st) ok = walk_group(group, a, n_walk, c);
    fxi_auto_free(a);
    fxi_gram_free(&g);
    return ok;
}

int main(int argc, char **argv)
{
    walk_counts c = {0};
    bool ok = true;
    fxi_json_doc doc = {0};
    if (argc == 3) doc = json_doc_file(argv[1]);
    const fxi_json *root = doc.root;
    if (!root) return 2;
    const fxi_json *groups = fxi_json_get(root, "groups");
    for (size_t i = 0; ok && i < fxi_json_array_size(groups); i++)
        ok = run_group(i, fxi_json_get(fxi_json_at(groups, i), "schema"), atoi(argv[2]), &c);
    fprintf(stderr, "%zu walks, %zu ended\n", c.n_walk, c.n_end);
    fxi_json_doc_free(&doc);
    return ok ? 0 : 1;
}
