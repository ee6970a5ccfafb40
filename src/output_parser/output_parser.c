// output_parser.c - where reasoning and calls begin and end: a state takes a byte, or waits for the
// bytes that decide whether a mark stands there.
//
//   START   white space, or nothing, has come: reasoning or a call without a mark may begin
//   TEXT    what is emitted as text
//   REASON  reasoning, up to its closing mark
//   FIRST   a section was opened: `again` must come, if the format has one
//   OPEN    the first byte of a call, or the bracket of a list of calls
//   CALL    a body takes the bytes
//   LIST    between two calls of a list
//   BETWEEN after a call: marks that continue or close the section, or text
//   HEADER  of a message of harmony
//
// START -> REASON -> START -> TEXT -> FIRST -> OPEN -> CALL -> LIST, BETWEEN -> OPEN, TEXT.
// What turns out not to be a call goes back to TEXT. In START and TEXT, marks around the text after
// reasoning are skipped.
#include <stdlib.h>
#include <string.h>

#include "output_parser/parser_impl.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { MAX_HEADER = 512 };

enum {
    STATE_START,
    STATE_TEXT,
    STATE_REASON,
    STATE_FIRST,
    STATE_OPEN,
    STATE_CALL,
    STATE_LIST,
    STATE_BETWEEN,
    STATE_HEADER,
};

// What becomes of the byte at o->at.
typedef enum byte_step {
    BYTE_WAITS,   // it may complete a mark
    BYTE_SKIPPED, // it is part of something else than a mark, or of nothing
    BYTE_SETTLED, // the places in the parser say it
} byte_step;

// ---- events -------------------------------------------------------------------------------------

// A byte of text or reasoning; white space waits.
static void emit_byte(fxi_output_parser *o, fxi_output_kind kind, char c)
{
    if (fxi_is_blank(c)) {
        if (!o->trim) fxi_parser_keep(o, &o->space, &c, 1);
        return;
    }
    o->trim = false;
    fxi_emit_run(o, kind, o->space.p, o->space.n);
    fxi_emit_run(o, kind, &c, 1);
    fxi_buf_clear(&o->space);
}

// All before `at` is decided.
static byte_step settle_at(fxi_output_parser *o, size_t at)
{
    o->from = o->mark = o->at = at;
    return BYTE_SETTLED;
}

// Enters a state after what came before it is complete: white space between is not emitted.
static void enter_state(fxi_output_parser *o, int state)
{
    o->state = state;
    o->trim = true;
    fxi_buf_clear(&o->space);
}

// What was being read is not a call: its bytes up to `to` are text.
static byte_step break_call(fxi_output_parser *o, size_t to)
{
    if (to <= o->from) to = o->from + 1;
    o->trim = false;
    o->state = STATE_TEXT;
    if (o->call.begun) {
        const size_t emitted = o->emitted > to ? to : o->emitted > o->from ? o->emitted : o->from;
        fxi_buf *raw = &o->space; // with the white space before it
        fxi_output_event ev = {.kind = FXI_OUTPUT_BROKEN, .n_emitted = raw->n + emitted - o->from};
        fxi_parser_keep(o, raw, o->in.p + o->from, to - o->from);
        ev.p = raw->p;
        ev.n = raw->n;
        fxi_emit_event(o, &ev);
        fxi_buf_clear(raw);
    } else {
        for (size_t i = o->from; i < to; i++) emit_byte(o, FXI_OUTPUT_TEXT, o->in.p[i]);
    }
    o->call.begun = false;
    return settle_at(o, to);
}

// ---- marks --------------------------------------------------------------------------------------

enum { NO_MARK = -1, MAYBE_MARK = -2 };

typedef struct mark_set { // marks with one meaning; a NULL ends them
    const char *const *mark;
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

static const char *const message_ends[] = {"<|end|>", "<|return|>", "<|call|>", NULL};
static const char *const header_begins[] = {"<|start|>", "<|channel|>", NULL};

// Whether the bytes from o->mark up to and including o->at are a mark, or may become one.
static int find_mark(const fxi_output_parser *o, const mark_set *set, size_t n_set)
{
    const char *p = o->in.p + o->mark;
    const size_t n = o->at + 1 - o->mark;
    int found = NO_MARK;
    for (size_t k = 0; k < n_set; k++)
        for (const char *const *mark = set[k].mark; *mark; mark++) {
            const size_t n_mark = strlen(*mark);
            if (n_mark < n || memcmp(*mark, p, n) != 0) continue;
            if (n_mark == n) return set[k].meaning;
            found = MAYBE_MARK;
        }
    const bool is_last = o->ending && o->at + 1 == o->in.n;
    return found == MAYBE_MARK && is_last ? NO_MARK : found;
}

// ---- text and reasoning -------------------------------------------------------------------------

// Emits the byte at o->mark, which begins no mark.
static byte_step pass_byte(fxi_output_parser *o, fxi_output_kind kind)
{
    const char c = o->in.p[o->mark];
    const bool waits = o->spec.calls || o->channels || kind != FXI_OUTPUT_TEXT || o->space.n ||
                       o->state == STATE_START || o->in_marks;
    settle_at(o, o->mark + 1);
    if (waits || o->trim)
        emit_byte(o, kind, c);
    else
        fxi_emit_run(o, kind, &c, 1);
    return BYTE_SETTLED;
}

static byte_step open_section(fxi_output_parser *o, bool bare)
{
    o->bare = bare;
    o->in_list = false;
    o->state = o->spec.calls->again[0] && !bare ? STATE_FIRST : STATE_OPEN;
    return BYTE_SETTLED;
}

static byte_step act_on_mark(fxi_output_parser *o, int meaning)
{
    const size_t begin = o->mark;
    o->mark = ++o->at;
    if (meaning == OPENS_CALLS) return open_section(o, false);
    settle_at(o, meaning == BEGINS_HEADER ? begin : o->at);
    if (meaning == CLOSES) { // if text has only a closing mark, what closes the reasoning opens it
        const fxi_reason_format *r = o->spec.reasoning;
        o->has_reasoned = true;
        o->in_marks = r->text_close[0] && !r->text_open[0];
    }
    if (meaning == OPENS_TEXT) o->in_marks = true;
    if (meaning == CLOSES_TEXT) o->in_marks = o->has_reasoned = false;
    const bool ends_message = meaning == ENDS_MESSAGE || meaning == BEGINS_HEADER;
    enter_state(o, meaning == OPENS_REASONING ? STATE_REASON
                   : ends_message             ? STATE_HEADER
                                              : STATE_START);
    return BYTE_SETTLED;
}

static size_t text_marks(const fxi_output_parser *o, mark_set set[6])
{
    const fxi_call_format *f = o->spec.calls;
    const fxi_reason_format *r = o->spec.reasoning;
    size_t n = 0;
    const bool is_text = o->spec.either && o->state == STATE_TEXT && !o->has_called;
    const bool is_start = o->state == STATE_START;
    if (f && !is_text) set[n++] = (mark_set){f->open, OPENS_CALLS};
    if (r && is_start) set[n++] = (mark_set){r->open, OPENS_REASONING};
    if (r && is_start && o->has_reasoned && !o->in_marks)
        set[n++] = (mark_set){r->text_open, OPENS_TEXT};
    if (r && o->in_marks) set[n++] = (mark_set){r->text_close, CLOSES_TEXT};
    if (o->channels) set[n++] = (mark_set){message_ends, ENDS_MESSAGE};
    if (o->channels) set[n++] = (mark_set){header_begins, BEGINS_HEADER};
    return n;
}

static byte_step state_text(fxi_output_parser *o)
{
    mark_set set[6];
    const int found = find_mark(o, set, text_marks(o, set));
    if (found == MAYBE_MARK) return BYTE_WAITS;
    if (found != NO_MARK) return act_on_mark(o, found);
    const char c = o->in.p[o->mark];
    const bool may_be_bare = o->state == STATE_START && o->spec.calls && !o->spec.either;
    if (may_be_bare && c == o->spec.calls->bare && c) {
        o->at = o->mark;
        return open_section(o, true);
    }
    if (!fxi_is_blank(c)) o->state = STATE_TEXT;
    return pass_byte(o, FXI_OUTPUT_TEXT);
}

static byte_step state_reasoning(fxi_output_parser *o)
{
    const mark_set set[] = {{o->spec.reasoning->close, CLOSES},
                            {message_ends, ENDS_MESSAGE},
                            {header_begins, BEGINS_HEADER}};
    const int found = find_mark(o, set, o->channels ? COUNT(set) : 1);
    if (found == MAYBE_MARK) return BYTE_WAITS;
    return found == NO_MARK ? pass_byte(o, FXI_OUTPUT_REASONING) : act_on_mark(o, found);
}

// ---- sections -----------------------------------------------------------------------------------

static byte_step state_first(fxi_output_parser *o)
{
    const mark_set set = {o->spec.calls->again, AGAIN};
    if (o->mark == o->at && fxi_is_blank(o->in.p[o->at])) return BYTE_SKIPPED;
    const int found = find_mark(o, &set, 1);
    if (found == NO_MARK) return break_call(o, o->mark);
    if (found == MAYBE_MARK) return BYTE_WAITS;
    o->state = STATE_OPEN;
    return BYTE_SKIPPED;
}

static byte_step begin_call_body(fxi_output_parser *o, fxi_call_body body)
{
    fxi_call_begin(&o->call, body);
    o->emitted = o->from;
    o->state = STATE_CALL;
    return BYTE_SETTLED;
}

static byte_step state_open(fxi_output_parser *o)
{
    const fxi_call_format *f = o->spec.calls;
    const char c = o->in.p[o->at];
    const bool objects = f->body == FXI_BODY_OBJECT || f->object_too;
    const bool lists = objects || f->body == FXI_BODY_PYTHON;
    if (fxi_is_blank(c)) return BYTE_SKIPPED;
    if (c == '[' && lists && !o->in_list) {
        o->in_list = true;
        return BYTE_SKIPPED;
    }
    if (f->body == FXI_BODY_PYTHON && !o->in_list) return break_call(o, o->at);
    return begin_call_body(o, c == '{' && objects ? FXI_BODY_OBJECT : f->body);
}

static byte_step end_call(fxi_output_parser *o)
{
    settle_at(o, o->at + 1);
    enter_state(o, o->in_list ? STATE_LIST : STATE_BETWEEN);
    o->call.begun = false;
    o->has_called = true;
    fxi_emit_event(o, &(fxi_output_event){.kind = FXI_OUTPUT_DONE});
    return BYTE_SETTLED;
}

static byte_step state_call(fxi_output_parser *o)
{
    switch (fxi_call_byte(o, o->in.p[o->at])) {
    case FXI_BODY_DONE: return end_call(o);
    case FXI_BODY_AGAIN: o->mark = o->at = o->at + 1 - o->n_back; return BYTE_SETTLED;
    case FXI_BODY_BAD: return break_call(o, o->at + 1 - o->n_back);
    default: return BYTE_SKIPPED;
    }
}

// Leaves the calls before the byte at o->mark.
static byte_step leave_section(fxi_output_parser *o)
{
    enter_state(o, o->channels ? STATE_HEADER : STATE_TEXT);
    return settle_at(o, o->mark);
}

static byte_step state_list(fxi_output_parser *o)
{
    const char c = o->in.p[o->at];
    if (c != ',' && c != ']' && !fxi_is_blank(c)) return leave_section(o);
    if (c == ',') o->state = STATE_OPEN;
    if (c == ']') o->state = STATE_BETWEEN;
    return BYTE_SKIPPED;
}

static byte_step state_between(fxi_output_parser *o)
{
    const fxi_call_format *f = o->spec.calls;
    const mark_set set[] = {{f->again, AGAIN}, {f->skip, SKIP}, {f->close, CLOSES}};
    const char first = o->in.p[o->mark];
    if (o->mark == o->at && fxi_is_blank(first)) return BYTE_SKIPPED;
    if (o->mark == o->at && first == '{' && f->body == FXI_BODY_OBJECT)
        return begin_call_body(o, FXI_BODY_OBJECT);
    const int found = find_mark(o, set, COUNT(set));
    if (found == NO_MARK) return leave_section(o);
    if (found == MAYBE_MARK) return BYTE_WAITS;
    o->mark = ++o->at;
    if (found == AGAIN) o->state = STATE_OPEN;
    return found == CLOSES ? leave_section(o) : BYTE_SETTLED;
}

// ---- harmony ------------------------------------------------------------------------------------
//
// Messages of OpenAI's format, as gpt-oss writes them:
//
//   <|start|>assistant<|channel|>CHANNEL [to=RECIPIENT] [<|constrain|>json]<|message|>..<|end|>
//
// The prompt ends with "<|start|>assistant". A message to "functions.NAME" is a call (a recipient
// may also stand before the channel); channel "analysis" is reasoning, others are text. Messages
// end with <|end|>, <|call|> or <|return|>, or where the next one begins.

// The value after `key` in the header, up to white space or the next mark.
static fxi_str find_value(const fxi_output_parser *o, const char *key)
{
    const char *p = o->in.p + o->from, *end = o->in.p + o->at;
    const char *at = memmem(p, (size_t)(end - p), key, strlen(key));
    if (!at) return (fxi_str){0};
    const char *value = at += strlen(key);
    while (at < end && *at != '<' && !fxi_is_blank(*at)) at++;
    return (fxi_str){value, (size_t)(at - value)};
}

// The header is complete: a call begins, or text or reasoning. A line break separates messages of
// one kind.
static byte_step begin_message(fxi_output_parser *o)
{
    const fxi_str recipient = find_value(o, "to="), channel = find_value(o, "<|channel|>");
    if (recipient.n && o->spec.calls) {
        fxi_call_begin_named(o, recipient);
        o->emitted = o->from;
        o->mark = o->at;
        o->state = STATE_CALL;
        o->bare = o->in_list = false;
        return BYTE_SETTLED;
    }
    const fxi_reason_format *r = o->spec.reasoning;
    const int state =
        r && r->channels && fxi_str_is(channel, "analysis") ? STATE_REASON : STATE_TEXT;
    const bool again = o->begun & 1u << state;
    o->begun |= 1u << state;
    enter_state(o, state);
    if (again) fxi_parser_keep(o, &o->space, "\n", 1);
    return settle_at(o, o->at);
}

static byte_step state_header(fxi_output_parser *o)
{
    static const char header_end[] = "<|message|>";
    const char c = o->in.p[o->at];
    if (o->at == o->from && fxi_is_blank(c)) return settle_at(o, o->at + 1);
    if (o->at == o->from && c != '<') {
        o->state = STATE_TEXT;
        return BYTE_SETTLED;
    }
    o->mark = ++o->at;
    const size_t n_read = o->at - o->from, n_end = sizeof header_end - 1;
    if (n_read >= n_end && !memcmp(o->in.p + o->at - n_end, header_end, n_end))
        return begin_message(o);
    return n_read < MAX_HEADER ? BYTE_SETTLED : break_call(o, o->at);
}

// ---- the parser ---------------------------------------------------------------------------------

static void run_states(fxi_output_parser *o)
{
    static byte_step (*const take[])(fxi_output_parser *) = {
        [STATE_START] = state_text,       [STATE_TEXT] = state_text,
        [STATE_REASON] = state_reasoning, [STATE_FIRST] = state_first,
        [STATE_OPEN] = state_open,        [STATE_CALL] = state_call,
        [STATE_LIST] = state_list,        [STATE_BETWEEN] = state_between,
        [STATE_HEADER] = state_header,
    };
    while (o->at < o->in.n && !o->failed) {
        const byte_step step = take[o->state](o);
        if (step == BYTE_WAITS) o->at++;
        if (step == BYTE_SKIPPED) o->mark = ++o->at;
    }
}

static void listen_with(fxi_output_parser *o, fxi_output_fn fn, void *ud)
{
    o->fn = o->unmarked ? fxi_unmarked_event : fn;
    o->ud = o->unmarked ? o->unmarked : ud;
    if (o->unmarked) fxi_unmarked_listen(o->unmarked, fn, ud);
}

bool fxi_output_parser_add(fxi_output_parser *o, const char *p, size_t n, fxi_output_fn fn,
                           void *ud)
{
    listen_with(o, fn, ud);
    fxi_parser_keep(o, &o->in, p, n);
    run_states(o);
    fxi_emit_flush(o);
    if (o->unmarked && !o->failed) o->failed = !fxi_unmarked_flush(o->unmarked);
    const size_t n_decided = o->from;
    fxi_buf_drop_front(&o->in, n_decided);
    o->emitted = o->emitted > n_decided ? o->emitted - n_decided : 0;
    o->mark -= n_decided;
    o->at -= n_decided;
    o->from = 0;
    return !o->failed;
}

// Whether a section has been opened and is not complete.
static bool is_opened(const fxi_output_parser *o)
{
    return o->state == STATE_FIRST || o->state == STATE_OPEN || o->state == STATE_CALL ||
           o->state == STATE_HEADER;
}

// What waits at the end: a section that is not complete, or white space after a text.
static void end_whole(fxi_output_parser *o)
{
    if (o->state != STATE_CALL && o->state != STATE_HEADER) o->at = o->mark;
    run_states(o);
    if (is_opened(o) && o->from < o->in.n) break_call(o, o->in.n);
    const bool is_text = o->state == STATE_TEXT || o->state == STATE_START;
    if (is_text && !o->has_called) fxi_emit_run(o, FXI_OUTPUT_TEXT, o->space.p, o->space.n);
}

bool fxi_output_parser_end(fxi_output_parser *o, bool is_cut, fxi_output_fn fn, void *ud)
{
    listen_with(o, fn, ud);
    o->ending = true;
    if (!is_cut || !(is_opened(o) || (o->spec.forced && o->state != STATE_REASON))) end_whole(o);
    fxi_emit_flush(o);
    if (o->unmarked && !o->failed) o->failed = !fxi_unmarked_end(o->unmarked);
    return !o->failed;
}

fxi_output_parser *fxi_output_parser_new(const fxi_output_spec *spec)
{
    fxi_output_parser *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    o->spec = *spec;
    if (spec->fits && !(o->unmarked = fxi_unmarked_new(&o->spec))) {
        free(o);
        return NULL;
    }
    o->channels = (spec->calls && spec->calls->body == FXI_BODY_CHANNELS) ||
                  (spec->reasoning && spec->reasoning->channels);
    o->state = o->channels ? STATE_HEADER : STATE_START;
    return o;
}

void fxi_output_parser_free(fxi_output_parser *o)
{
    if (!o) return;
    fxi_buf_free(&o->in);
    fxi_buf_free(&o->space);
    fxi_buf_free(&o->out);
    fxi_call_free(&o->call);
    fxi_unmarked_free(o->unmarked);
    free(o);
}

void fxi_output_parser_open_reasoning(fxi_output_parser *o)
{
    enter_state(o, STATE_REASON);
}

bool fxi_output_parser_opens_reasoning(const fxi_output_spec *spec, const char *tail, size_t n)
{
    const fxi_reason_format *r = spec->reasoning;
    while (n && fxi_is_blank(tail[n - 1])) n--;
    for (size_t i = 0; r && r->open[i]; i++) {
        const size_t len = strlen(r->open[i]);
        if (len <= n && !memcmp(tail + n - len, r->open[i], len)) return true;
    }
    return false;
}

bool fxi_output_parser_is_reasoning(const fxi_output_parser *o)
{
    return o->state == STATE_REASON;
}

size_t fxi_output_parser_bytes(const fxi_output_parser *o)
{
    const fxi_call_draft *d = &o->call;
    return sizeof *o + o->in.cap + o->space.cap + o->out.cap + d->name.cap + d->id.cap +
           d->args.cap + d->word.cap + d->key.cap +
           (o->unmarked ? fxi_unmarked_bytes(o->unmarked) : 0);
}
