// vocab_split.c - cuts a text into words by the split steps; each cuts what the step before it
// made.
//
// A step sees its text as a sequence of parts that match its pattern and parts that do not. `how`
// says which part joins the one before it; a part waits until the next one is known. A step that
// changes its word instead of cutting it passes on the changed one.
#include <stdlib.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_encode.h"

typedef struct split_cutter {
    fxi_encode_job *j;
    size_t step;
    const char *s;
    size_t front;          // of s, as in fxi_norm_how
    fxi_regex_match waits; // from = SIZE_MAX: none
    bool was_match;        // the part before
} split_cutter;

static fx_status cut_words(fxi_encode_job *j, size_t step, fxi_str text, size_t front);

static fx_status flush_part(split_cutter *c)
{
    fxi_regex_match w = c->waits;
    c->waits.from = SIZE_MAX;
    if (w.from == SIZE_MAX || w.from == w.to) return FX_OK;
    const fxi_str word = {c->s + w.from, w.to - w.from};
    return cut_words(c->j, c->step + 1, word, c->front > w.from ? c->front - w.from : 0);
}

static bool joins_last(fxi_split_how how, bool was_match, bool is_match)
{
    static const bool table[FXI_SPLIT_N][2][2] = {
        // [how][was_match][is_match]
        [FXI_SPLIT_MERGED_PREVIOUS] = {{false, true}, {false, false}},
        [FXI_SPLIT_MERGED_NEXT] = {{false, false}, {true, false}},
        [FXI_SPLIT_CONTIGUOUS] = {{true, false}, {false, true}},
    };
    return table[how][was_match][is_match];
}

static fx_status add_part(split_cutter *c, size_t from, size_t to, bool is_match)
{
    const fxi_split_how how = c->j->v->split[c->step].how;
    is_match ^= c->j->v->split[c->step].invert;
    if (c->waits.from != SIZE_MAX && joins_last(how, c->was_match, is_match)) {
        c->waits.to = to;
    } else {
        FX_TRY(flush_part(c));
        if (how != FXI_SPLIT_REMOVED || !is_match) c->waits = (fxi_regex_match){from, to};
    }
    c->was_match = is_match;
    return FX_OK;
}

// An empty match directly after a match is skipped.
static fx_status cut_by_step(split_cutter *c, size_t n)
{
    const fxi_regex *re = c->j->v->split[c->step].regex;
    size_t last = SIZE_MAX, done = 0;
    for (size_t at = 0; at <= n;) {
        fxi_regex_match m;
        FX_TRY(fxi_regex_next(re, c->j->matcher, c->s, n, at, &m, c->j->err));
        if (m.from == SIZE_MAX) break;
        if (m.from == m.to && m.to == last) {
            size_t len = 1;
            if (at < n && !c->j->v->split[c->step].bytes) fxi_utf8_at(c->s + at, n - at, &len);
            at += len;
            continue;
        }
        if (done < m.from) FX_TRY(add_part(c, done, m.from, false));
        FX_TRY(add_part(c, m.from, m.to, true));
        at = done = last = m.to;
    }
    if (done < n) FX_TRY(add_part(c, done, n, false));
    return flush_part(c);
}

// Each step has buffers of its own: a word lies in those of the step that changed it last.
static fx_status change_word(fxi_encode_job *j, size_t step, fxi_str word, size_t front)
{
    const fxi_split_step *s = &j->v->split[step];
    if (!j->change && !(j->change = calloc(j->v->n_split, sizeof *j->change)))
        return fxi_fail(j->err, FX_ENOMEM, "no memory to tokenize the text");
    const fxi_norm_how how = {.late = true, .space = j->space, .front = front};
    fxi_norm_work *work = &j->change[step];
    FX_TRY(fxi_norm_run(&s->change, how, word, work, &word, j->err));
    return word.n ? cut_words(j, step + 1, word, work->front) : FX_OK;
}

static fx_status cut_words(fxi_encode_job *j, size_t step, fxi_str text, size_t front)
{
    if (step == j->v->n_split) return fxi_word_encode(j, text.p, text.n);
    if (j->v->split[step].how == FXI_SPLIT_CHANGE) return change_word(j, step, text, front);
    split_cutter c = {
        .j = j, .step = step, .s = text.p, .front = front, .waits = {SIZE_MAX, SIZE_MAX}};
    return cut_by_step(&c, text.n);
}

fx_status fxi_split_encode(fxi_encode_job *j, const char *p, size_t n, size_t front)
{
    if (!n) return FX_OK;
    if (j->v->n_split && !j->matcher && !(j->matcher = fxi_matcher_new()))
        return fxi_fail(j->err, FX_ENOMEM, "no memory to tokenize the text");
    return cut_words(j, 0, (fxi_str){p, n}, front);
}
