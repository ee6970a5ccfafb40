// hf_match.c - names of tensors: from those of a Hugging Face model to those of GGUF, by the rows
// of its family and then the common ones.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/hf/hf_folder.h"

// A number of up to 6 digits at *at, which moves behind it.
static bool take_index(const char **at, uint32_t *out)
{
    const size_t n = strspn(*at, "0123456789");
    if (!n || n > 6) return false;
    *out = (uint32_t)strtoul(*at, NULL, 10);
    *at += n;
    return true;
}

// Whether name [n] fits the pattern.
static bool fits_pattern(const char *pattern, const char *name, size_t n, fxi_hf_match *m)
{
    const char *at = name;
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            if (!take_index(&at, &m->layer)) return false;
        } else if (*pattern == '@') {
            if (!take_index(&at, &m->index)) return false;
        } else if (*at++ != *pattern) {
            return false;
        }
    }
    return at == name + n;
}

static const char *suffix_of(const char *name)
{
    static const char *const known[] = {".weight", ".bias"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t k = strlen(known[i]);
        if (n > k && !strcmp(name + n - k, known[i])) return name + n - k;
    }
    return name + n;
}

// The row's GGUF name, with the layer and the suffix put in.
static void put_target(const char *to, const char *suffix, fxi_hf_match *m)
{
    const char *mark = strchr(to, '#');
    if (*suffix_of(to)) suffix = "";
    if (mark)
        snprintf(m->to, sizeof m->to, "%.*s%u%s%s", (int)(mark - to), to, m->layer, mark + 1,
                 suffix);
    else
        snprintf(m->to, sizeof m->to, "%s%s", to, suffix);
}

static int match_rows(const fxi_hf_name *row, const char *name, fxi_hf_match *out)
{
    const char *suffix = suffix_of(name);
    int n = 0;
    for (; row && row->from && n < FXI_HF_MAX_MATCH; row++) {
        fxi_hf_match m = {.how = row->how};
        if (!fits_pattern(row->from, name, (size_t)(suffix - name), &m)) continue;
        put_target(row->to, suffix, &m);
        out[n++] = m;
    }
    return n;
}

static int match_stripped(const fxi_hf_family *family, const char *name, fxi_hf_match *out)
{
    const int n = match_rows(family->names, name, out);
    return n ? n : match_rows(fxi_hf_common_names, name, out);
}

int fxi_hf_match_name(const fxi_hf_family *family, const char *name,
                      fxi_hf_match out[FXI_HF_MAX_MATCH])
{
    for (const char *const *p = fxi_hf_prefixes; *p; p++) {
        const size_t k = strlen(*p);
        if (strncmp(name, *p, k)) continue;
        const int n = match_stripped(family, name + k, out);
        if (n) return n;
    }
    return match_stripped(family, name, out);
}
