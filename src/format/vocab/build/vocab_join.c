// vocab_join.c - what a token adds to a text where that depends on its place: as the first token,
// and after another one.
#include <stdlib.h>
#include <string.h>

#include "format/vocab/build/vocab_build.h"

static char *put_text(char *to, fxi_str s)
{
    if (s.n) memcpy(to, s.p, s.n);
    return to + s.n;
}

// Replaces a text by a shorter one, in place; returns the length left.
static size_t replace_shorter(char *p, size_t n, const char *from, const char *to)
{
    const size_t n_from = strlen(from), n_to = strlen(to);
    char *read = p, *write = p, *end = p + n;
    for (char *at; (at = memmem(read, (size_t)(end - read), from, n_from)); read = at + n_from) {
        memmove(write, read, (size_t)(at - read));
        write += at - read;
        write = put_text(write, (fxi_str){to, n_to});
    }
    memmove(write, read, (size_t)(end - read));
    return (size_t)(write - p) + (size_t)(end - read);
}

// As `tokenizers` and `transformers` tidy up a decoded text, token by token.
static size_t tidy_text(char *p, size_t n)
{
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        n = replace_shorter(p, n, rules[i][0], rules[i][1]);
    return n;
}

static bool begins_with(fxi_str s, fxi_str head)
{
    return head.n && s.n >= head.n && !memcmp(s.p, head.p, head.n);
}

// A text at *pool, which moves past it.
static fxi_str keep_text(const fxi_vocab_spec *s, char **pool, fxi_str a, fxi_str b)
{
    fxi_str text = {*pool, a.n + b.n};
    put_text(put_text(*pool, a), b);
    if (s->tidies) text.n = tidy_text(*pool, text.n);
    *pool += text.n;
    return text;
}

static void join_words(fxi_vocab *v, const fxi_vocab_spec *s, int32_t id, char **pool)
{
    fxi_token *t = &v->token[id];
    const fxi_str piece = {t->text, t->n_text}, none = {"", 0}, space = {" ", 1};
    v->start_text[id] = piece;
    if (t->type == FXI_TOKEN_CONTROL || t->type == FXI_TOKEN_UNKNOWN) return;
    v->start_text[id] = keep_text(s, pool, piece, none);
    fxi_str text;
    if (begins_with(piece, s->join_inside)) {
        const fxi_str rest = {piece.p + s->join_inside.n, piece.n - s->join_inside.n};
        text = keep_text(s, pool, rest, none);
    } else {
        text = keep_text(s, pool, space, piece);
    }
    t->text = text.p;
    t->n_text = (uint32_t)text.n;
}

static void join_marks(fxi_vocab *v, const fxi_vocab_spec *s, int32_t id, char **pool)
{
    const fxi_token *t = &v->token[id];
    (void)s;
    v->start_text[id] = (fxi_str){t->text, t->n_text};
    if (t->type == FXI_TOKEN_CONTROL || t->type == FXI_TOKEN_UNKNOWN || t->type == FXI_TOKEN_BYTE)
        return;
    if (t->n_piece) memcpy(*pool, t->piece, t->n_piece);
    v->start_text[id] = (fxi_str){*pool, replace_shorter(*pool, t->n_piece, FXI_SPACE_MARK, "")};
    *pool += v->start_text[id].n;
}

bool fxi_join_make(fxi_vocab *v, const fxi_vocab_spec *s, char **pool)
{
    static void (*const joins[FXI_JOIN_N])(fxi_vocab *, const fxi_vocab_spec *, int32_t,
                                           char **) = {
        [FXI_JOIN_MARKS] = join_marks,
        [FXI_JOIN_WORDS] = join_words,
    };
    if (s->join == FXI_JOIN_NOTHING) return true;
    v->start_text = malloc((size_t)v->n * sizeof *v->start_text);
    if (!v->start_text) return false;
    for (int32_t id = 0; id < v->n; id++) joins[s->join](v, s, id, pool);
    return true;
}
