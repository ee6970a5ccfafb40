// answer_channels.c - messages of OpenAI's harmony format, as gpt-oss writes them.
//
//   <|start|>assistant<|channel|>CHANNEL [to=RECIPIENT] [<|constrain|>json]<|message|>..<|end|>
//
// The prompt ends with "<|start|>assistant". A message to "functions.NAME" is a call (a recipient
// may stand before the channel, too); channel "analysis" is reasoning, others are text. Messages
// end with <|end|>, <|call|> or <|return|>, or where the next one begins.
#include <string.h>

#include "answer/answer_states.h"

enum { MAX_HEADER = 512 };

static const char header_end[] = "<|message|>";

static bool ends_header(const fxi_answer *a)
{
    const size_t n = sizeof header_end - 1, n_read = a->at - a->from;
    return n_read >= n && !memcmp(a->in.p + a->at - n, header_end, n);
}

// What follows `key` in the header, up to white space or the next mark.
static size_t find_value(const fxi_answer *a, const char *key, const char **value)
{
    const char *p = a->in.p + a->from, *end = a->in.p + a->at;
    const char *at = memmem(p, (size_t)(end - p), key, strlen(key));
    if (!at) return 0;
    *value = at += strlen(key);
    while (at < end && *at != '<' && !fxi_is_blank(*at)) at++;
    return (size_t)(at - *value);
}

static bool begin_call(fxi_answer *a, const char *name, size_t n)
{
    static const char front[] = "functions.";
    const size_t n_front = sizeof front - 1;
    const bool has_front = n > n_front && !memcmp(name, front, n_front);
    fxi_call_begin(&a->call, FXI_BODY_HEAD);
    fxi_call_head_named(&a->call);
    a->emitted = a->from;
    a->mark = a->at;
    a->state = FXI_STATE_CALL;
    a->bare = a->in_list = false;
    return fxi_buf_add(&a->call.name, has_front ? name + n_front : name,
                       has_front ? n - n_front : n);
}

// Messages of one kind are separated by a line break.
static bool begin_message(fxi_answer *a, int state)
{
    const unsigned bit = 1u << state;
    const bool again = a->begun & bit;
    a->begun |= bit;
    fxi_answer_settle(a, a->at);
    fxi_answer_enter(a, state);
    return !again || fxi_buf_add(&a->space, "\n", 1);
}

static bool decide_header(fxi_answer *a)
{
    const char *name = NULL, *channel = NULL;
    const size_t n_name = find_value(a, "to=", &name);
    const size_t n_channel = find_value(a, "<|channel|>", &channel);
    const bool thinks = n_channel == 8 && !memcmp(channel, "analysis", 8);
    if (n_name && a->spec.calls) return begin_call(a, name, n_name);
    const bool split = thinks && a->spec.reasoning && a->spec.reasoning->channels;
    return begin_message(a, split ? FXI_STATE_REASON : FXI_STATE_TEXT);
}

bool fxi_answer_take_header(fxi_answer *a)
{
    const char c = a->in.p[a->at];
    if (a->at == a->from && fxi_is_blank(c)) {
        fxi_answer_settle(a, a->at + 1);
        return true;
    }
    if (a->at == a->from && c != '<') {
        a->state = FXI_STATE_TEXT;
        return true;
    }
    a->mark = ++a->at;
    if (ends_header(a)) return decide_header(a);
    return a->at - a->from < MAX_HEADER || fxi_answer_break(a, a->at);
}
