// chat_continue.c - a conversation whose last message the model goes on with: the text up to the
// end of what that message says.
//
// Templates write a message's text as it is, or trimmed, between marks of their own. So the end is
// that of the last run of the caller's bytes that ends with it, blanks aside.
#include <string.h>

#include "base/text/str.h"
#include "format/template/chat_impl.h"

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static fxi_str trim_blanks(fxi_str s)
{
    while (s.n && is_white(s.p[s.n - 1])) s.n--;
    while (s.n && is_white(*s.p)) s.p++, s.n--;
    return s;
}

// What the last message says; of several parts, the last one.
static fxi_str final_text(const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const json_t *said = json_object_get(last, "content");
    if (json_is_array(said))
        said = json_object_get(json_array_get(said, json_array_size(said) - 1), "text");
    if (!json_is_string(said)) return (fxi_str){"", 0};
    return trim_blanks((fxi_str){json_string_value(said), json_string_length(said)});
}

// Whether text[begin..end), blanks at its end aside, ends with `said`.
static bool ends_with(const char *text, size_t begin, size_t end, fxi_str said)
{
    while (end > begin && is_white(text[end - 1])) end--;
    return end - begin >= said.n && !memcmp(text + end - said.n, said.p, said.n);
}

// The end of the run of the caller's bytes that has it; `from` if there is none.
static size_t find_end(const fxi_marked *m, size_t from, fxi_str said)
{
    for (size_t end = m->text.n; end > from;) {
        while (end > from && m->own.p[end - 1]) end--;
        size_t begin = end;
        while (begin > from && !m->own.p[begin - 1]) begin--;
        if (end > begin && ends_with(m->text.p, begin, end, said)) return end;
        end = begin;
    }
    return from;
}

fx_status fxi_chat_cut_final(const json_t *messages, size_t from, fxi_marked *m, fx_error *err)
{
    const fxi_str said = final_text(messages);
    if (!said.n) return fxi_fail(err, FX_EINVAL, "messages: the last one has no text to continue");
    const size_t end = find_end(m, from, said);
    if (end == from)
        return fxi_fail(err, FX_EINVAL,
                        "messages: the chat template changes the last one, so that it cannot be "
                        "continued");
    m->text.n = m->own.n = end;
    return FX_OK;
}
