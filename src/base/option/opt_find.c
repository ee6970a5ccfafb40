// opt_find.c - the row with a name, or the name most similar to a mistyped one.
#include "base/option/opt_impl.h"

#include <string.h>

const fxi_opt *fxi_opt_find(const fxi_opt_table *t, unsigned command, const char *name, size_t n)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    }
    return NULL;
}

const fxi_opt *fxi_opt_find_letter(const fxi_opt_table *t, unsigned command, char letter)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && o->letter == letter) return o;
    }
    return NULL;
}

// The Levenshtein distance of a[0..n) and b.
static int edit_distance(const char *a, size_t n, const char *b)
{
    int row[FXI_OPT_MAX_NAME + 1];
    size_t m = strlen(b);
    if (n > FXI_OPT_MAX_NAME || m > FXI_OPT_MAX_NAME) return FXI_OPT_MAX_NAME;
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

// The name most similar to a mistyped one; NULL: none is similar.
const char *fxi_opt_nearest(const fxi_opt_table *t, unsigned command, const char *name, size_t n)
{
    const char *best = NULL;
    int best_distance = 3; // too different
    for (size_t i = 0; i < t->n_opt; i++) {
        if (!(t->opt[i].commands & command)) continue;
        int d = edit_distance(name, n, t->opt[i].name);
        if (d >= best_distance || d >= (int)n) continue;
        best_distance = d;
        best = t->opt[i].name;
    }
    return best;
}
