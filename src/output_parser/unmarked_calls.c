// unmarked_calls.c - see unmarked_calls.h: a state takes a byte of text.
//
//   section = ``` [json] LF objects ```     or objects, or [objects], at the start of a line
//   objects = object {[,] object}           white space anywhere between
//   object  = {"name": "f", "arguments": {..}} in any order; "type" and "id" mean nothing
//
//   LINE    white space since the line began: a section may begin
//   TEXT    within a line
//   HEAD    ``` and what follows it in its line
//   GAP     in a section, between objects
//   OBJECT  in an object
//   CLOSE   the marks that close a fence
//   CODE    a block of code that is text, up to its closing marks
//   VALUE   an object that is text, up to its end
//
// LINE -> HEAD -> GAP -> OBJECT -> GAP -> CLOSE -> LINE; LINE -> OBJECT, GAP without a fence.
// An object is a call if it names a tool of the request and its arguments fit that tool's schema.
// Text is held back only while it can still become one: a wrong key or name ends that at once.
#include "output_parser/unmarked_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"
#include "output_parser/json_scan.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum {
    STATE_LINE,
    STATE_TEXT,
    STATE_HEAD,
    STATE_GAP,
    STATE_OBJECT,
    STATE_CLOSE,
    STATE_CODE,
    STATE_VALUE
};
enum { KEY_NAME, KEY_ARGS, KEY_ELSE, KEY_UNKNOWN };
enum { FENCE_TICKS = 3, MAX_HEAD = 32 };

typedef struct text_span { // of `json`
    size_t at, n;
} text_span;

struct fxi_unmarked {
    const fxi_output_spec *spec;
    fxi_output_fn fn;
    void *ud;
    int state;
    bool failed;            // out of memory: nothing is kept or emitted any more
    bool in_fence, in_list; // where the section stands
    bool has_called;        // it has had a call
    bool trim;              // white space that comes now follows a call
    int n_tick;             // CODE: marks since the line began; -1: something else. CLOSE: so far
    size_t n_head;          // bytes of `held` before the first object
    fxi_buf out;            // text to be emitted
    fxi_buf held;           // undecided: white space before it, and what may become calls
    fxi_buf json;           // the object; control characters within strings as escapes
    fxi_json_scan scan;     // of it
    int key;                // of its member that is being read
    size_t word_at;         // where the string that is being read begins in `json`
    text_span name, args;   // as JSON writes them; n 0: not yet
    bool args_are_text;     // they came as a string
};

static void keep_unmarked(fxi_unmarked *u, fxi_buf *b, const char *p, size_t n)
{
    if (n && !u->failed) u->failed = !fxi_buf_add(b, p, n);
}

static bool send_event(fxi_unmarked *u, const fxi_output_event *ev)
{
    if (!u->failed) u->failed = !u->fn(u->ud, ev);
    return !u->failed;
}

bool fxi_unmarked_flush(fxi_unmarked *u)
{
    const fxi_output_event ev = {.kind = FXI_OUTPUT_TEXT, .p = u->out.p, .n = u->out.n};
    if (ev.n) send_event(u, &ev);
    fxi_buf_clear(&u->out);
    return !u->failed;
}

// What was held is text.
static void release_held(fxi_unmarked *u)
{
    keep_unmarked(u, &u->out, u->held.p, u->held.n);
    fxi_buf_clear(&u->held);
    u->trim = false;
}

// ---- what is text -------------------------------------------------------------------------------

static void unmarked_code(fxi_unmarked *u, char c)
{
    keep_unmarked(u, &u->out, &c, 1);
    if (c == '\n')
        u->n_tick = 0;
    else if (c == '`' && u->n_tick >= 0 && ++u->n_tick == FENCE_TICKS)
        u->state = STATE_TEXT;
    else if (c != '`' && !fxi_is_blank(c))
        u->n_tick = -1;
}

static void unmarked_value(fxi_unmarked *u, char c)
{
    keep_unmarked(u, &u->out, &c, 1);
    if (fxi_json_scan_byte(&u->scan, c) != FXI_SCAN_MORE) u->state = STATE_TEXT;
}

// The section is none, from what is held on.
static void break_section(fxi_unmarked *u)
{
    const bool in_value = u->state == STATE_OBJECT && u->scan.depth;
    fxi_buf held = u->held;
    size_t from = 0; // white space after a call is not text
    u->held = (fxi_buf){0};
    u->trim = false;
    while (u->has_called && from < held.n && fxi_is_blank(held.p[from])) from++;
    if (!u->in_fence) {
        keep_unmarked(u, &u->out, held.p + from, held.n - from);
        u->state = in_value ? STATE_VALUE : STATE_TEXT;
    } else {
        if (!u->has_called) keep_unmarked(u, &u->out, held.p, from = u->n_head);
        u->state = STATE_CODE;
        u->n_tick = 0;
        for (size_t i = from; i < held.n; i++) unmarked_code(u, held.p[i]);
    }
    fxi_buf_free(&held);
}

// ---- an object ----------------------------------------------------------------------------------

static int call_key(fxi_str word)
{
    static const struct {
        const char *word;
        int key;
    } keys[] = {{"name", KEY_NAME},      {"tool_name", KEY_NAME},  {"function", KEY_NAME},
                {"arguments", KEY_ARGS}, {"parameters", KEY_ARGS}, {"type", KEY_ELSE},
                {"id", KEY_ELSE}};
    for (size_t i = 0; i < COUNT(keys); i++)
        if (fxi_str_is(word, keys[i].word)) return keys[i].key;
    return KEY_UNKNOWN;
}

// A string of the object's own level has ended. False: it is no call.
static bool end_word(fxi_unmarked *u)
{
    const text_span span = {u->word_at, u->json.n - 1 - u->word_at};
    const fxi_str word = {u->json.p + span.at, span.n};
    if (u->scan.in_key) {
        u->key = call_key(word);
        return u->key == KEY_ELSE || (u->key == KEY_NAME && !u->name.n) ||
               (u->key == KEY_ARGS && !u->args.n);
    }
    if (u->key == KEY_NAME) {
        u->name = span;
        return u->spec->has_tool(u->spec->tools, word.p, word.n);
    }
    if (u->key == KEY_ARGS) {
        u->args = span;
        u->args_are_text = true;
    }
    return true;
}

// A list or an object begins, or ends, at the object's own level. False: it is no call.
static bool cross_level(fxi_unmarked *u, char c, bool opens)
{
    if (u->key != KEY_ARGS || (opens && c != '{')) return false;
    if (opens)
        u->args.at = u->json.n - 1;
    else
        u->args.n = u->json.n - u->args.at;
    return true;
}

static void send_call(fxi_unmarked *u, fxi_str name, fxi_str args)
{
    fxi_unmarked_flush(u);
    send_event(u, &(fxi_output_event){.kind = FXI_OUTPUT_CALL, .p = name.p, .n = name.n});
    send_event(u, &(fxi_output_event){.kind = FXI_OUTPUT_ARGS, .p = args.p, .n = args.n});
    send_event(u, &(fxi_output_event){.kind = FXI_OUTPUT_DONE});
    fxi_buf_clear(&u->held);
    u->has_called = u->trim = true;
    u->state = STATE_GAP;
}

static void end_object(fxi_unmarked *u)
{
    fxi_buf text = {0};
    const fxi_str name = {u->json.p + u->name.at, u->name.n};
    fxi_str args = {u->json.p + u->args.at, u->args.n};
    if (u->args_are_text) {
        u->failed |= !fxi_json_unescape(&text, args.p, args.n);
        args = (fxi_str){text.p, text.n};
    }
    const bool is_object = u->name.n && args.n && !u->failed &&
                           args.p[strspn(args.p, " \n\r\t")] == '{' &&
                           (!u->args_are_text || fxi_json_scan_all(args.p, args.n));
    const fxi_args_fit fit =
        is_object ? u->spec->fits(u->spec->tools, name.p, name.n, args.p, args.n) : FXI_ARGS_BAD;
    u->failed |= fit == FXI_ARGS_NO_MEMORY;
    if (fit == FXI_ARGS_FIT)
        send_call(u, name, args);
    else
        break_section(u);
    fxi_buf_free(&text);
}

static void unmarked_object(fxi_unmarked *u, char c)
{
    const bool was_text = fxi_json_scan_in_text(&u->scan);
    const int depth = u->scan.depth;
    char escape[FXI_ESCAPE_BYTES];
    const fxi_scan_step step = fxi_json_scan_byte(&u->scan, c);
    keep_unmarked(u, &u->held, &c, 1);
    if (was_text && (unsigned char)c < 0x20)
        keep_unmarked(u, &u->json, escape, fxi_json_escape(c, escape));
    else
        keep_unmarked(u, &u->json, &c, 1);
    if (u->failed) return;
    const bool is_text = fxi_json_scan_in_text(&u->scan);
    bool fits = step == FXI_SCAN_MORE || step == FXI_SCAN_DONE;
    if (fits && depth == 1 && was_text && !is_text) fits = end_word(u);
    if (fits && depth == 1 && u->scan.depth == 2) fits = cross_level(u, c, true);
    if (fits && depth == 2 && u->scan.depth == 1) fits = cross_level(u, c, false);
    if (depth == 1 && !was_text && is_text) u->word_at = u->json.n;
    if (!fits)
        break_section(u);
    else if (step == FXI_SCAN_DONE)
        end_object(u);
}

static void begin_object(fxi_unmarked *u, char c)
{
    fxi_buf_clear(&u->json);
    u->scan = (fxi_json_scan){0};
    u->name = u->args = (text_span){0};
    u->args_are_text = false;
    u->state = STATE_OBJECT;
    unmarked_object(u, c);
}

// ---- sections -----------------------------------------------------------------------------------

static void unmarked_line(fxi_unmarked *u, char c)
{
    u->in_fence = u->in_list = u->has_called = false;
    u->n_head = u->held.n;
    if (c == '{') {
        begin_object(u, c);
        return;
    }
    if (!fxi_is_blank(c)) u->state = c == '`' ? STATE_HEAD : c == '[' ? STATE_GAP : STATE_TEXT;
    u->in_list = c == '[';
    if (!u->trim || !fxi_is_blank(c)) keep_unmarked(u, &u->held, &c, 1);
    if (u->state == STATE_TEXT) release_held(u);
}

static void unmarked_text(fxi_unmarked *u, char c)
{
    keep_unmarked(u, &u->held, &c, 1);
    if (c == '\n') u->state = STATE_LINE;
    if (!fxi_is_blank(c)) release_held(u);
}

// Words after ``` that leave open what the block holds. The head begins where the line does.
static void unmarked_head(fxi_unmarked *u, char c)
{
    static const char *const words[] = {"",           "json", "tool_call",
                                        "tool_calls", "tool", "function_call"};
    const size_t n = u->held.n - u->n_head; // before c
    keep_unmarked(u, &u->held, &c, 1);
    if (u->failed) return;
    if (n < FENCE_TICKS ? c == '`' : c != '\n' && c != '`' && n < MAX_HEAD) return;
    if (n >= FENCE_TICKS && c == '\n') {
        fxi_str word = {u->held.p + u->n_head + FENCE_TICKS, n - FENCE_TICKS};
        while (word.n && fxi_is_blank(word.p[word.n - 1])) word.n--;
        u->in_fence = true;
        u->state = STATE_GAP;
        u->n_head = u->held.n;
        if (fxi_str_is_any(word, words, COUNT(words))) return;
        break_section(u);
    } else {
        u->state = c == '\n' ? STATE_LINE : STATE_TEXT;
        release_held(u);
    }
}

static void unmarked_gap(fxi_unmarked *u, char c)
{
    if (c == '{') {
        begin_object(u, c);
        return;
    }
    const bool ends_fence = c == '`' && u->in_fence && u->has_called;
    const bool ends_list = c == ']' && u->in_list && u->has_called;
    const bool begins_list = c == '[' && u->in_fence && !u->in_list && !u->has_called;
    const bool goes_on = fxi_is_blank(c) || (c == ',' && u->has_called);
    const bool is_over = !u->in_fence && u->has_called && !ends_list && !goes_on;
    if (is_over && (!u->held.n || !memchr(u->held.p, ',', u->held.n))) { // it ended before c
        fxi_buf_clear(&u->held);
        u->state = STATE_LINE;
        unmarked_line(u, c);
        return;
    }
    keep_unmarked(u, &u->held, &c, 1);
    if (ends_list || begins_list) u->in_list = begins_list;
    if (ends_fence) {
        u->n_tick = 1;
        u->state = STATE_CLOSE;
    } else if (!ends_list && !begins_list && !goes_on) {
        break_section(u);
    }
}

static void unmarked_close(fxi_unmarked *u, char c)
{
    keep_unmarked(u, &u->held, &c, 1);
    if (c != '`') {
        break_section(u);
    } else if (++u->n_tick == FENCE_TICKS) {
        fxi_buf_clear(&u->held);
        u->state = STATE_LINE;
    }
}

// ---- events -------------------------------------------------------------------------------------

static void unmarked_byte(fxi_unmarked *u, char c)
{
    static void (*const take[])(fxi_unmarked *, char) = {
        [STATE_LINE] = unmarked_line,     [STATE_TEXT] = unmarked_text,
        [STATE_HEAD] = unmarked_head,     [STATE_GAP] = unmarked_gap,
        [STATE_OBJECT] = unmarked_object, [STATE_CLOSE] = unmarked_close,
        [STATE_CODE] = unmarked_code,     [STATE_VALUE] = unmarked_value,
    };
    take[u->state](u, c);
}

// The text so far is complete: what is held of it is no call. Only white space is left after one.
static void end_text(fxi_unmarked *u)
{
    const bool is_gap = u->has_called && (u->state == STATE_GAP || u->state == STATE_CLOSE);
    if (is_gap) fxi_buf_clear(&u->held);
    release_held(u);
    u->state = STATE_LINE;
    fxi_unmarked_flush(u);
}

bool fxi_unmarked_event(void *unmarked, const fxi_output_event *ev)
{
    fxi_unmarked *u = unmarked;
    if (ev->kind != FXI_OUTPUT_TEXT) {
        end_text(u);
        if (ev->kind == FXI_OUTPUT_BROKEN) u->state = STATE_TEXT; // its line continues
        return send_event(u, ev);
    }
    for (size_t i = 0; i < ev->n && !u->failed; i++) unmarked_byte(u, ev->p[i]);
    return !u->failed;
}

bool fxi_unmarked_end(fxi_unmarked *u)
{
    end_text(u);
    return !u->failed;
}

void fxi_unmarked_listen(fxi_unmarked *u, fxi_output_fn fn, void *ud)
{
    u->fn = fn;
    u->ud = ud;
}

fxi_unmarked *fxi_unmarked_new(const fxi_output_spec *spec)
{
    fxi_unmarked *u = calloc(1, sizeof *u);
    if (u) u->spec = spec;
    return u;
}

void fxi_unmarked_free(fxi_unmarked *u)
{
    if (!u) return;
    fxi_buf_free(&u->out);
    fxi_buf_free(&u->held);
    fxi_buf_free(&u->json);
    free(u);
}

size_t fxi_unmarked_bytes(const fxi_unmarked *u)
{
    return sizeof *u + u->out.cap + u->held.cap + u->json.cap;
}
