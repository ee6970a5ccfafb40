// answer.c - where reasoning and calls begin and end: a state takes a byte, or waits for those that
// decide whether a mark stands there.
//
//   START   white space, or nothing, has come: reasoning or a call without a mark may begin
//   TEXT    what is emitted as text
//   REASON  reasoning, up to its closing mark
//   FIRST   a section was opened: `again` must come, where the format has one
//   OPEN    the first byte of a call, or the bracket of a list of calls
//   CALL    a body takes the bytes
//   LIST    between two calls of a list
//   BETWEEN after a call: marks that go on or close the section, or text
//   HEADER  of a message of harmony (answer_channels.c)
//
// Marks around the text behind reasoning are read over, in START and TEXT.
//
// START -> REASON -> START -> TEXT -> FIRST -> OPEN -> CALL -> LIST, BETWEEN -> OPEN, TEXT.
// Whatever is no call after all goes back to TEXT.
#include <stdlib.h>
#include <string.h>

#include "answer/answer_states.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// ---- marks --------------------------------------------------------------------------------------

enum { NO_MARK = -1, MAYBE_MARK = -2 };

typedef struct mark_set { // marks with one meaning
    const char *const *mark;
    size_t max;
    int meaning;
} mark_set;

enum {
    OPENS_CALLS,
    OPENS_REASONING,
    OPENS_TEXT,
    CLOSES_TEXT,
    ENDS_MESSAGE,
    BEGINS_HEADER,
    CLOSES,
    AGAIN,
    SKIP,
};

static const char *const message_ends[] = {"<|end|>", "<|return|>", "<|call|>"};
static const char *const header_begins[] = {"<|start|>", "<|channel|>"};

// Whether the bytes from a->mark to a->at, the last one included, are a mark, or may become one.
static int find_mark(const fxi_answer *a, const mark_set *set, size_t n_set)
{
    const char *p = a->in.p + a->mark;
    const size_t n = a->at + 1 - a->mark;
    int found = NO_MARK;
    for (size_t k = 0; k < n_set; k++)
        for (size_t i = 0; i < set[k].max && set[k].mark[i]; i++) {
            if (strncmp(set[k].mark[i], p, n) != 0) continue;
            if (!set[k].mark[i][n]) return set[k].meaning;
            found = MAYBE_MARK;
        }
    const bool is_last = a->ending && a->at + 1 == a->in.n;
    return found == MAYBE_MARK && is_last ? NO_MARK : found;
}

// ---- text and reasoning -------------------------------------------------------------------------

// Tells the byte at a->mark, which begins no mark.
static bool pass_byte(fxi_answer *a, fxi_answer_kind kind)
{
    const char c = a->in.p[a->mark];
    const bool waits = a->spec.calls || a->channels || kind != FXI_ANSWER_TEXT || a->space.n ||
                       a->state == FXI_STATE_START || a->in_marks;
    fxi_answer_settle(a, a->mark + 1);
    return waits || a->trim ? fxi_emit_byte(a, kind, c) : fxi_emit_bytes(a, kind, &c, 1);
}

static bool open_section(fxi_answer *a, bool bare)
{
    a->bare = bare;
    a->in_list = false;
    a->state = a->spec.calls->again[0] && !bare ? FXI_STATE_FIRST : FXI_STATE_OPEN;
    return true;
}

// Where text has a closing mark alone, what closes the reasoning opens it.
static void note_reasoning(fxi_answer *a)
{
    const fxi_reason_format *r = a->spec.reasoning;
    a->has_reasoned = true;
    a->in_marks = r->text_close[0] && !r->text_open[0];
}

static bool act_on_mark(fxi_answer *a, int meaning)
{
    const size_t begin = a->mark;
    a->mark = ++a->at;
    if (meaning == OPENS_CALLS) return open_section(a, false);
    fxi_answer_settle(a, meaning == BEGINS_HEADER ? begin : a->at);
    if (meaning == CLOSES) note_reasoning(a);
    if (meaning == OPENS_TEXT) a->in_marks = true;
    if (meaning == CLOSES_TEXT) a->in_marks = a->has_reasoned = false;
    fxi_answer_enter(a, meaning == OPENS_REASONING                     ? FXI_STATE_REASON
                        : meaning >= ENDS_MESSAGE && meaning != CLOSES ? FXI_STATE_HEADER
                                                                       : FXI_STATE_START);
    return true;
}

static size_t text_marks(const fxi_answer *a, mark_set set[6])
{
    const fxi_call_format *f = a->spec.calls;
    const fxi_reason_format *r = a->spec.reasoning;
    size_t n = 0;
    const bool is_text = a->spec.either && a->state == FXI_STATE_TEXT && !a->has_called;
    if (f && !is_text) set[n++] = (mark_set){f->open, COUNT(f->open), OPENS_CALLS};
    if (r && a->state == FXI_STATE_START)
        set[n++] = (mark_set){r->open, COUNT(r->open), OPENS_REASONING};
    if (r && a->state == FXI_STATE_START && a->has_reasoned && !a->in_marks)
        set[n++] = (mark_set){r->text_open, COUNT(r->text_open), OPENS_TEXT};
    if (r && a->in_marks) set[n++] = (mark_set){r->text_close, COUNT(r->text_close), CLOSES_TEXT};
    if (a->channels) set[n++] = (mark_set){message_ends, COUNT(message_ends), ENDS_MESSAGE};
    if (a->channels) set[n++] = (mark_set){header_begins, COUNT(header_begins), BEGINS_HEADER};
    return n;
}

static bool state_text(fxi_answer *a)
{
    mark_set set[6];
    const int found = find_mark(a, set, text_marks(a, set));
    if (found == MAYBE_MARK) return a->at++, true;
    if (found != NO_MARK) return act_on_mark(a, found);
    const char c = a->in.p[a->mark];
    const bool may_be_bare = a->state == FXI_STATE_START && a->spec.calls && !a->spec.either;
    if (may_be_bare && c == a->spec.calls->bare && c) return a->at = a->mark, open_section(a, true);
    if (!fxi_is_blank(c)) a->state = FXI_STATE_TEXT;
    return pass_byte(a, FXI_ANSWER_TEXT);
}

static bool state_reasoning(fxi_answer *a)
{
    const fxi_reason_format *r = a->spec.reasoning;
    const mark_set set[] = {{r->close, COUNT(r->close), CLOSES},
                            {message_ends, a->channels ? COUNT(message_ends) : 0, ENDS_MESSAGE},
                            {header_begins, a->channels ? COUNT(header_begins) : 0, BEGINS_HEADER}};
    const int found = find_mark(a, set, COUNT(set));
    if (found == MAYBE_MARK) return a->at++, true;
    return found == NO_MARK ? pass_byte(a, FXI_ANSWER_REASONING) : act_on_mark(a, found);
}

// ---- sections -----------------------------------------------------------------------------------

static bool state_first(fxi_answer *a)
{
    const fxi_call_format *f = a->spec.calls;
    const mark_set set = {f->again, COUNT(f->again), AGAIN};
    if (a->mark == a->at && fxi_is_blank(a->in.p[a->at])) return a->mark = ++a->at, true;
    const int found = find_mark(a, &set, 1);
    if (found == NO_MARK) return fxi_answer_break(a, a->mark);
    a->at++;
    if (found == MAYBE_MARK) return true;
    a->mark = a->at;
    a->state = FXI_STATE_OPEN;
    return true;
}

static bool begin_call_body(fxi_answer *a, fxi_call_body body)
{
    fxi_call_begin(&a->call, body);
    a->emitted = a->from;
    a->state = FXI_STATE_CALL;
    return true;
}

static bool state_open(fxi_answer *a)
{
    const fxi_call_format *f = a->spec.calls;
    const char c = a->in.p[a->at];
    const bool objects = f->body == FXI_BODY_OBJECT || f->object_too;
    const bool lists = objects || f->body == FXI_BODY_PYTHON;
    if (fxi_is_blank(c)) return a->mark = ++a->at, true;
    if (c == '[' && lists && !a->in_list) {
        a->in_list = true;
        return a->mark = ++a->at, true;
    }
    if (f->body == FXI_BODY_PYTHON && !a->in_list) return fxi_answer_break(a, a->at);
    return begin_call_body(a, c == '{' && objects ? FXI_BODY_OBJECT : f->body);
}

static bool end_call(fxi_answer *a)
{
    fxi_answer_settle(a, a->at + 1);
    a->state = a->in_list ? FXI_STATE_LIST : FXI_STATE_BETWEEN;
    a->trim = true;
    a->call.begun = false;
    return fxi_emit_done(a);
}

static bool state_call(fxi_answer *a)
{
    static fxi_body_step (*const bodies[])(fxi_answer *, char) = {
        [FXI_BODY_OBJECT] = fxi_call_object,
        [FXI_BODY_HEAD] = fxi_call_head,
        [FXI_BODY_TAGS] = fxi_call_tags,
        [FXI_BODY_PYTHON] = fxi_call_python,
    };
    switch (bodies[a->call.body](a, a->in.p[a->at])) {
    case FXI_BODY_MORE: a->mark = ++a->at; return true;
    case FXI_BODY_DONE: return end_call(a);
    case FXI_BODY_AGAIN: a->mark = a->at = a->at + 1 - a->n_back; return true;
    case FXI_BODY_BAD: return fxi_answer_break(a, a->at + 1 - a->n_back);
    default: return false;
    }
}

// Back to what is no call; a->at stays.
static bool leave_section(fxi_answer *a)
{
    fxi_answer_settle(a, a->mark);
    fxi_answer_enter(a, a->channels ? FXI_STATE_HEADER : FXI_STATE_TEXT);
    return true;
}

static bool state_list(fxi_answer *a)
{
    const char c = a->in.p[a->at];
    if (c != ',' && c != ']' && !fxi_is_blank(c)) return leave_section(a);
    a->mark = ++a->at;
    if (c == ',') a->state = FXI_STATE_OPEN;
    if (c == ']') a->state = FXI_STATE_BETWEEN;
    return true;
}

static bool state_between(fxi_answer *a)
{
    const fxi_call_format *f = a->spec.calls;
    const mark_set set[] = {{f->again, COUNT(f->again), AGAIN},
                            {f->skip, COUNT(f->skip), SKIP},
                            {f->close, COUNT(f->close), CLOSES}};
    const char first = a->in.p[a->mark];
    if (a->mark == a->at && fxi_is_blank(first)) return a->mark = ++a->at, true;
    if (a->mark == a->at && first == '{' && f->body == FXI_BODY_OBJECT)
        return begin_call_body(a, FXI_BODY_OBJECT);
    const int found = find_mark(a, set, COUNT(set));
    if (found == NO_MARK) return leave_section(a);
    a->at++;
    if (found == MAYBE_MARK) return true;
    a->mark = a->at;
    if (found == AGAIN) a->state = FXI_STATE_OPEN;
    return found != CLOSES || leave_section(a);
}

// ---- the whole ----------------------------------------------------------------------------------

static bool run_states(fxi_answer *a)
{
    static bool (*const take[])(fxi_answer *) = {
        [FXI_STATE_START] = state_text,
        [FXI_STATE_TEXT] = state_text,
        [FXI_STATE_REASON] = state_reasoning,
        [FXI_STATE_FIRST] = state_first,
        [FXI_STATE_OPEN] = state_open,
        [FXI_STATE_CALL] = state_call,
        [FXI_STATE_LIST] = state_list,
        [FXI_STATE_BETWEEN] = state_between,
        [FXI_STATE_HEADER] = fxi_answer_take_header,
    };
    while (a->at < a->in.n)
        if (!take[a->state](a)) return false;
    return true;
}

static void drop_decided(fxi_answer *a)
{
    const size_t n = a->from;
    fxi_buf_drop_front(&a->in, n);
    a->emitted = a->emitted > n ? a->emitted - n : 0;
    a->mark -= n;
    a->at -= n;
    a->from = 0;
}

bool fxi_answer_add(fxi_answer *a, const char *p, size_t n, fxi_answer_fn fn, void *ud)
{
    a->fn = fn;
    a->ud = ud;
    if (!n) return true;
    if (!fxi_buf_add(&a->in, p, n) || !run_states(a) || !fxi_emit_flush(a)) return false;
    drop_decided(a);
    return true;
}

// What waits at the end: a section that is none, or white space behind a text.
static bool end_state(fxi_answer *a)
{
    const bool opened = a->state == FXI_STATE_FIRST || a->state == FXI_STATE_OPEN ||
                        a->state == FXI_STATE_CALL || a->state == FXI_STATE_HEADER;
    if (opened && a->from < a->in.n && !fxi_answer_break(a, a->in.n)) return false;
    const bool text = a->state == FXI_STATE_TEXT || a->state == FXI_STATE_START;
    return !text || a->has_called || fxi_emit_bytes(a, FXI_ANSWER_TEXT, a->space.p, a->space.n);
}

bool fxi_answer_end(fxi_answer *a, fxi_answer_fn fn, void *ud)
{
    a->fn = fn;
    a->ud = ud;
    a->ending = true;
    if (a->state != FXI_STATE_CALL && a->state != FXI_STATE_HEADER) a->at = a->mark;
    return run_states(a) && end_state(a) && fxi_emit_flush(a);
}

fxi_answer *fxi_answer_new(const fxi_answer_spec *spec)
{
    fxi_answer *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->spec = *spec;
    a->channels = (spec->calls && spec->calls->body == FXI_BODY_CHANNELS) ||
                  (spec->reasoning && spec->reasoning->channels);
    a->state = a->channels ? FXI_STATE_HEADER : FXI_STATE_START;
    return a;
}

void fxi_answer_free(fxi_answer *a)
{
    if (!a) return;
    fxi_buf_free(&a->in);
    fxi_buf_free(&a->space);
    fxi_buf_free(&a->out);
    fxi_call_free(&a->call);
    free(a);
}

void fxi_answer_open_reasoning(fxi_answer *a)
{
    fxi_answer_enter(a, FXI_STATE_REASON);
}

bool fxi_answer_opens_reasoning(const fxi_answer_spec *spec, const char *tail, size_t n)
{
    const fxi_reason_format *r = spec->reasoning;
    while (n && fxi_is_blank(tail[n - 1])) n--;
    for (size_t i = 0; r && i < COUNT(r->open) && r->open[i]; i++) {
        const size_t len = strlen(r->open[i]);
        if (len <= n && !memcmp(tail + n - len, r->open[i], len)) return true;
    }
    return false;
}

bool fxi_answer_is_reasoning(const fxi_answer *a)
{
    return a->state == FXI_STATE_REASON;
}

size_t fxi_answer_bytes(const fxi_answer *a)
{
    const fxi_call_draft *d = &a->call;
    return sizeof *a + a->in.cap + a->space.cap + a->out.cap + d->name.cap + d->id.cap +
           d->args.cap + d->word.cap + d->key.cap;
}
