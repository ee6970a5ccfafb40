// vocab_norm.c - norm steps: what happens to a text before it is cut into words.
//
// The steps run one after another, each from one buffer into the other. A step that does not change
// the text copies nothing.
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/norm/vocab_norm.h"
#include "format/vocab/lookup/vocab_chars.h"

//
// Steps: each appends to the empty *out, or sets *same if nothing changes
//

typedef struct norm_run {
    const fxi_norm_step *step;
    const fxi_trie *kept; // by FXI_NORM_CHARSMAP
    fxi_norm_how how;
    fxi_norm_work *work;
    fx_error *err;
} norm_run;

typedef fx_status norm_fn(const norm_run *r, fxi_str text, fxi_buf *out, bool *same);

static fx_status status_of(const norm_run *r, bool ok)
{
    return ok ? FX_OK : fxi_fail(r->err, FX_ENOMEM, "no memory to tokenize the text");
}

static fx_status fail_too_long(const norm_run *r)
{
    return fxi_fail(r->err, FX_EINVAL, "the text becomes too long for the vocabulary's steps");
}

static fx_status normal_form(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    return status_of(r, fxi_nf_append(r->step->kind, text, r->work, out, same));
}

static fx_status change_chars(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    (void)same;
    return status_of(r, fxi_norm_chars(r->step->kind, text, out));
}

static fx_status prepend_text(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    const fxi_str to = r->step->to;
    const bool there = text.n >= to.n && !memcmp(text.p, to.p, to.n);
    if (!r->how.space || (r->step->kind == FXI_NORM_PREPEND_FIRST && !r->work->front) ||
        (r->step->kind != FXI_NORM_PREPEND && there)) {
        *same = true;
        return FX_OK;
    }
    return status_of(r, fxi_buf_reserve(out, to.n + text.n) && fxi_buf_add(out, to.p, to.n) &&
                            fxi_buf_add(out, text.p, text.n));
}

static const char *find_text(const char *p, const char *end, fxi_str what)
{
    const size_t n = (size_t)(end - p);
    return what.n == 1 ? memchr(p, *what.p, n) : memmem(p, n, what.p, what.n);
}

static fx_status replace_text(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    const fxi_str from = r->step->from, to = r->step->to;
    const char *end = text.p + text.n;
    size_t n_found = 0;
    for (const char *at = text.p; (at = find_text(at, end, from)); at += from.n) n_found++;
    *same = !n_found;
    if (*same) return FX_OK;
    const size_t n_out = text.n - n_found * from.n + n_found * to.n;
    if (n_out > FXI_MAX_NORM_BYTES) return fail_too_long(r);
    if (!fxi_buf_reserve(out, n_out)) return status_of(r, false);
    for (const char *p = text.p, *at; p < end; p = at + from.n) {
        at = find_text(p, end, from);
        bool ok = fxi_buf_add(out, p, (size_t)((at ? at : end) - p));
        if (!at) return status_of(r, ok);
        if (!ok || !fxi_buf_add(out, to.p, to.n)) return status_of(r, false);
    }
    return FX_OK;
}

static fx_status replace_regex(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    fxi_norm_work *w = r->work;
    size_t copied = 0, last = SIZE_MAX;
    if (!w->matcher && !(w->matcher = fxi_matcher_new())) return status_of(r, false);
    for (size_t at = 0; at <= text.n;) {
        fxi_regex_match m;
        FX_TRY(fxi_regex_next(r->step->regex, w->matcher, text.p, text.n, at, &m, r->err));
        if (m.from == SIZE_MAX) break;
        if (m.from == m.to && m.to == last) { // an empty match directly after a match is skipped
            size_t len = 1;
            if (at < text.n) fxi_utf8_at(text.p + at, text.n - at, &len);
            at += len;
            continue;
        }
        if (!fxi_buf_add(out, text.p + copied, m.from - copied) ||
            !fxi_buf_add(out, r->step->to.p, r->step->to.n))
            return status_of(r, false);
        at = copied = last = m.to;
        if (out->n > FXI_MAX_NORM_BYTES) return fail_too_long(r);
    }
    *same = last == SIZE_MAX;
    return status_of(r, *same || fxi_buf_add(out, text.p + copied, text.n - copied));
}

static fx_status strip_spaces(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    size_t from = 0, to = text.n, len;
    while (r->step->kind == FXI_NORM_STRIP_LEFT && from < to &&
           fxi_cp_is_space(fxi_utf8_at(text.p + from, to - from, &len)))
        from += len;
    while (r->step->kind == FXI_NORM_STRIP_RIGHT && from < to &&
           fxi_cp_is_space(fxi_cp_before(text.p, to, &len)))
        to -= len;
    *same = to - from == text.n;
    return status_of(r, *same || fxi_buf_add(out, text.p + from, to - from));
}

static bool ends_with(const fxi_buf *b, const char *s)
{
    size_t n = strlen(s);
    return b->n >= n && !memcmp(b->p + b->n - n, s, n);
}

// Marks at the end of the text are removed like spaces.
static fx_status collapse_spaces(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    bool ok = fxi_buf_reserve(out, text.n + 1), space = true;
    (void)same;
    for (size_t i = 0; ok && i < text.n; i++) {
        if (text.p[i] != ' ' || !space) ok = fxi_buf_add(out, text.p + i, 1);
        space = text.p[i] == ' ';
    }
    while (ends_with(out, " ") || ends_with(out, FXI_SPACE_MARK))
        out->n -= ends_with(out, " ") ? 1 : FXI_SPACE_MARK_BYTES;
    return status_of(r, ok);
}

static fx_status map_chars(const norm_run *r, fxi_str text, fxi_buf *out, bool *same)
{
    (void)same;
    return status_of(r, fxi_charsmap_append(r->step->from, r->kept, text, out));
}

static norm_fn *const steps[FXI_NORM_N_KIND] = {
    [FXI_NORM_NFC] = normal_form,
    [FXI_NORM_NFD] = normal_form,
    [FXI_NORM_NFKC] = normal_form,
    [FXI_NORM_NFKD] = normal_form,
    [FXI_NORM_LOWERCASE] = change_chars,
    [FXI_NORM_STRIP_ACCENTS] = change_chars,
    [FXI_NORM_STRIP_MN] = change_chars,
    [FXI_NORM_CLEAN] = change_chars,
    [FXI_NORM_PAD_HAN] = change_chars,
    [FXI_NORM_PREPEND] = prepend_text,
    [FXI_NORM_PREPEND_FIRST] = prepend_text,
    [FXI_NORM_PREPEND_OTHER] = prepend_text,
    [FXI_NORM_REPLACE] = replace_text,
    [FXI_NORM_REPLACE_REGEX] = replace_regex,
    [FXI_NORM_STRIP_LEFT] = strip_spaces,
    [FXI_NORM_STRIP_RIGHT] = strip_spaces,
    [FXI_NORM_COLLAPSE] = collapse_spaces,
    [FXI_NORM_CHARSMAP] = map_chars,
};

//
// The front: bytes that come from the first character of the input
//

static fx_status next_match(const norm_run *r, fxi_str text, size_t at, fxi_regex_match *m)
{
    const fxi_norm_step *s = r->step;
    if (s->kind == FXI_NORM_REPLACE_REGEX)
        return fxi_regex_next(s->regex, r->work->matcher, text.p, text.n, at, m, r->err);
    const char *found = find_text(text.p + at, text.p + text.n, s->from);
    m->from = found ? (size_t)(found - text.p) : SIZE_MAX;
    m->to = found ? m->from + s->from.n : SIZE_MAX;
    return FX_OK;
}

// What replaces a match is in the front if the match ends there.
static fx_status replaced_front(const norm_run *r, fxi_str text, size_t *front)
{
    size_t n = 0, done = 0, last = SIZE_MAX;
    for (size_t at = 0; at <= *front && at <= text.n;) {
        fxi_regex_match m;
        FX_TRY(next_match(r, text, at, &m));
        if (m.from == SIZE_MAX || m.from > *front || (m.from == *front && m.to > m.from)) break;
        if (m.from == m.to && m.to == last) {
            at += 1;
            continue;
        }
        n += m.from - done;
        if (m.to > *front) {
            *front = n;
            return FX_OK;
        }
        n += r->step->to.n;
        at = done = last = m.to;
    }
    *front = n + *front - done;
    return FX_OK;
}

// To the end of a character: one that was composed with the next.
static size_t whole_front(fxi_str text, size_t front)
{
    while (front && front < text.n && ((unsigned char)text.p[front] & 0xC0) == 0x80) front++;
    return front < text.n ? front : text.n;
}

// The front of what the step made of a text, n_out bytes.
static fx_status move_front(const norm_run *r, fxi_str text, size_t n_out)
{
    size_t *front = &r->work->front;
    const fxi_norm_kind kind = r->step->kind;
    if (kind == FXI_NORM_REPLACE || kind == FXI_NORM_REPLACE_REGEX)
        return replaced_front(r, text, front);
    if (kind == FXI_NORM_STRIP_LEFT) {
        const size_t n_gone = text.n - n_out;
        *front = *front > n_gone ? *front - n_gone : 0;
    } else if (kind == FXI_NORM_STRIP_RIGHT) {
        *front = *front < n_out ? *front : n_out;
    } else if (n_out == text.n + r->step->to.n && r->step->to.n) { // put in front
        *front += r->step->to.n;
    } else {
        fxi_buf alone = {0};
        bool same = false;
        fx_status st = steps[kind](r, (fxi_str){text.p, *front}, &alone, &same);
        if (!same) *front = alone.n;
        fxi_buf_free(&alone);
        return st;
    }
    return FX_OK;
}

fx_status fxi_norm_run(const fxi_norms *norms, fxi_norm_how how, fxi_str text, fxi_norm_work *w,
                       fxi_str *out, fx_error *err)
{
    w->front = norms->looks_front ? how.front : 0;
    for (size_t i = 0; i < norms->n && text.n; i++) {
        const fxi_norm_step *step = &norms->step[i];
        if (step->late != how.late) continue;
        norm_run r = {.step = step, .kept = &norms->kept, .how = how, .work = w, .err = err};
        fxi_buf *to = text.p == w->a.p ? &w->b : &w->a;
        bool same = false;
        fxi_buf_clear(to);
        FX_TRY(steps[step->kind](&r, text, to, &same));
        if (!same && w->front) FX_TRY(move_front(&r, text, to->n));
        if (!same) text = (fxi_str){to->p, to->n};
        w->front = whole_front(text, w->front);
        if (text.n > FXI_MAX_NORM_BYTES) return fail_too_long(&r);
    }
    *out = text;
    return FX_OK;
}

void fxi_norm_work_free(fxi_norm_work *w)
{
    fxi_buf_free(&w->a);
    fxi_buf_free(&w->b);
    free(w->cp);
    fxi_matcher_free(w->matcher);
    *w = (fxi_norm_work){0};
}
