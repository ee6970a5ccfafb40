// call_read.c - what the bodies of calls share: names, marks, and arguments that are JSON.
#include <stdlib.h>
#include <string.h>

#include "answer/answer_impl.h"

void fxi_call_begin(fxi_call_draft *d, fxi_call_body body)
{
    fxi_buf *const kept[] = {&d->name, &d->id, &d->args, &d->word, &d->key};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) fxi_buf_clear(kept[i]);
    *d = (fxi_call_draft){.body = body,
                          .name = d->name,
                          .id = d->id,
                          .args = d->args,
                          .word = d->word,
                          .key = d->key};
}

void fxi_call_free(fxi_call_draft *d)
{
    fxi_buf_free(&d->name);
    fxi_buf_free(&d->id);
    fxi_buf_free(&d->args);
    fxi_buf_free(&d->word);
    fxi_buf_free(&d->key);
}

// A control character within a string, which JSON does not allow, is emitted as its escape.
fxi_body_step fxi_read_args(fxi_answer *a, char c)
{
    const bool is_raw = fxi_json_scan_in_text(&a->call.scan) && (unsigned char)c < 0x20;
    const fxi_scan_step step = fxi_json_scan_byte(&a->call.scan, c);
    fxi_buf escape = {0};
    if (step == FXI_SCAN_BAD || step == FXI_SCAN_BEFORE) return fxi_body_bad(a, 1);
    bool ok = is_raw ? fxi_json_escape(&escape, &c, 1) && fxi_emit_args(a, escape.p, escape.n)
                     : fxi_emit_args(a, &c, 1);
    fxi_buf_free(&escape);
    if (!ok) return FXI_BODY_NO_MEMORY;
    return step == FXI_SCAN_DONE ? FXI_BODY_DONE : FXI_BODY_MORE;
}

fxi_body_step fxi_read_until(fxi_answer *a, char c, const char *const *marks, size_t max,
                             int *which)
{
    fxi_buf *w = &a->call.word;
    *which = -1;
    if (w->n == FXI_NAME_BYTES) return fxi_body_bad(a, 1);
    if (!fxi_buf_add(w, &c, 1)) return FXI_BODY_NO_MEMORY;
    for (size_t i = 0; i < max && marks[i]; i++) {
        const size_t n = strlen(marks[i]);
        if (n > w->n || memcmp(w->p + w->n - n, marks[i], n) != 0) continue;
        w->p[w->n -= n] = 0;
        *which = (int)i;
        break;
    }
    return FXI_BODY_MORE;
}

fxi_body_step fxi_read_mark(fxi_answer *a, char c, const char *const *marks, size_t max, int *which)
{
    fxi_buf *w = &a->call.word;
    *which = -1;
    if (!w->n && fxi_is_blank(c)) return FXI_BODY_MORE;
    if (!fxi_buf_add(w, &c, 1)) return FXI_BODY_NO_MEMORY;
    bool goes_on = false;
    for (size_t i = 0; i < max && marks[i]; i++) {
        goes_on |= !strncmp(marks[i], w->p, w->n) && strlen(w->p) == w->n;
        if (!goes_on || strlen(marks[i]) != w->n || strcmp(marks[i], w->p) != 0) continue;
        fxi_buf_clear(w);
        *which = (int)i;
        return FXI_BODY_MORE;
    }
    return goes_on ? FXI_BODY_MORE : fxi_body_bad(a, w->n);
}

static bool is_name_byte(char c)
{
    return (unsigned char)c > ' ' && !strchr("{}[]<>\"'\\,;|`", c);
}

fxi_body_step fxi_take_name(fxi_answer *a)
{
    const fxi_buf *w = &a->call.word;
    size_t from = 0, to = w->n;
    while (from < to && fxi_is_blank(w->p[from])) from++;
    while (from < to && fxi_is_blank(w->p[to - 1])) to--;
    for (size_t i = from; i < to; i++)
        if (!is_name_byte(w->p[i])) return fxi_body_bad(a, 0);
    if (from == to) return fxi_body_bad(a, 0);
    if (!fxi_buf_add(&a->call.name, w->p + from, to - from)) return FXI_BODY_NO_MEMORY;
    fxi_buf_clear(&a->call.word);
    return FXI_BODY_MORE;
}
