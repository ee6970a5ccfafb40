// key_set.c - the text of a key file to keys. Messages name the line and never show a key.
#include "server/guard/key_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "flexinfer/flexinfer.h"

#define SPACES " \t\r"

// ---- words ------------------------------------------------------------------------------------

static fxi_str next_word(fxi_str *line)
{
    while (line->n && memchr(SPACES, line->p[0], sizeof SPACES - 1)) line->p++, line->n--;
    fxi_str word = {line->p, 0};
    while (word.n < line->n && !memchr(SPACES, word.p[word.n], sizeof SPACES - 1)) word.n++;
    line->p += word.n;
    line->n -= word.n;
    return word;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

static bool is_name(fxi_str s)
{
    if (!s.n || s.n >= FXI_TENANT_ID_BYTES) return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_name_char(s.p[i])) return false;
    return !fxi_str_is(s, fxi_tenant_anonymous()->id);
}

static bool is_key_text(fxi_str s)
{
    if (!s.n || s.n > FXI_MAX_KEY_BYTES) return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~') return false;
    return true;
}

// ---- keys -------------------------------------------------------------------------------------

static bool has_key(const fxi_key_set *set, fxi_str key)
{
    for (int i = 0; i < set->n; i++)
        if (fxi_str_is(key, set->key[i]->text)) return true;
    return false;
}

fx_status fxi_key_set_add(fxi_key_set *set, const fxi_tenant *t, fxi_str key, const char *where,
                          fx_error *err)
{
    if (!is_key_text(key))
        return fxi_fail(err, FX_EINVAL, "%s: a key is 1 to %d printable ASCII characters", where,
                        FXI_MAX_KEY_BYTES);
    if (has_key(set, key)) return fxi_fail(err, FX_EINVAL, "%s: the key occurs twice", where);
    if (set->n == FXI_MAX_KEY)
        return fxi_fail(err, FX_EINVAL, "%s: more than %d keys", where, FXI_MAX_KEY);
    fxi_key *k = calloc(1, sizeof *k);
    if (!k) return fxi_fail(err, FX_ENOMEM, "out of memory");
    k->tenant = *t;
    atomic_init(&k->refs, 1);
    memcpy(k->text, key.p, key.n);
    k->n_bytes = key.n;
    set->key[set->n++] = k;
    return FX_OK;
}

static void release_key(fxi_key *k)
{
    if (atomic_fetch_sub(&k->refs, 1) > 1) return;
    explicit_bzero(k, sizeof *k);
    free(k);
}

void fxi_tenant_release(const fxi_tenant *t)
{
    if (t != fxi_tenant_anonymous()) release_key((fxi_key *)(void *)t);
}

void fxi_key_set_clear(fxi_key_set *set)
{
    for (int i = 0; i < set->n; i++) release_key(set->key[i]);
    set->n = 0;
}

// ---- lines ------------------------------------------------------------------------------------

// "priority=N". False: it is not that, or N is out of bounds.
static bool read_priority(fxi_str word, int *out)
{
    static const char head[] = "priority=";
    const size_t n_head = sizeof head - 1;
    int v = 0;
    if (word.n <= n_head || word.n > n_head + 3 || memcmp(word.p, head, n_head) != 0) return false;
    for (size_t i = n_head; i < word.n; i++) {
        if (word.p[i] < '0' || word.p[i] > '9') return false;
        v = v * 10 + word.p[i] - '0';
    }
    *out = v;
    return v <= FX_MAX_PRIORITY;
}

static fx_status read_rights(fxi_tenant *t, fxi_str line, const char *where, fx_error *err)
{
    for (fxi_str word; (word = next_word(&line)).n;) {
        if (fxi_str_is(word, "admin"))
            t->is_admin = true;
        else if (!read_priority(word, &t->max_priority))
            return fxi_fail(err, FX_EINVAL,
                            "%s: after the key come 'admin' and 'priority=N' (0 to %d) only", where,
                            FX_MAX_PRIORITY);
    }
    return FX_OK;
}

static fx_status read_key_line(fxi_key_set *set, fxi_str line, const char *where, fx_error *err)
{
    fxi_tenant t = {.is_admin = false};
    const fxi_str name = next_word(&line);
    if (!name.n || name.p[0] == '#') return FX_OK;
    if (!is_name(name))
        return fxi_fail(err, FX_EINVAL,
                        "%s: a name has 1 to %d letters, digits and '_.-', and is not '%s'", where,
                        FXI_TENANT_ID_BYTES - 1, fxi_tenant_anonymous()->id);
    snprintf(t.id, sizeof t.id, "%.*s", (int)name.n, name.p);
    snprintf(t.salt, sizeof t.salt, "key:%s", t.id);
    const fxi_str key = next_word(&line);
    if (!key.n) return fxi_fail(err, FX_EINVAL, "%s: a key must follow the name", where);
    FX_TRY(read_rights(&t, line, where, err));
    return fxi_key_set_add(set, &t, key, where, err);
}

fx_status fxi_key_set_read(fxi_key_set *set, const char *text, size_t n_bytes, const char *name,
                           fx_error *err)
{
    char where[FX_ERROR_TEXT_BYTES / 2];
    const char *end = text + n_bytes;
    for (int n_line = 1; text < end; n_line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        snprintf(where, sizeof where, "%s, line %d", name, n_line);
        FX_TRY(read_key_line(set, (fxi_str){text, (size_t)(stop - text)}, where, err));
        text = stop == end ? end : stop + 1;
    }
    return FX_OK;
}
