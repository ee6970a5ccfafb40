// test_spelling.c - tokens and text: where the text of each token begins, control tokens that are
// shown, ids back to text, and runs of tokens that an answer must not have.
#include "unit/cmocka_all.h"

#include "base/text/utf8.h"
#include "unit/engine/support/unthreaded.h"

#include <stdlib.h>
#include <string.h>

#define MODEL FX_SOURCE_DIR "/models/storyteller.gguf"

enum { N_TOK = 60, EOS_BIAS = 30 };

static fx_engine *eng;
static fx_tokens prompt;

static int open_once(void **state)
{
    (void)state;
    eng = unthreaded_open(MODEL, (fx_options){.n_thread = 1, .kv_memory_bytes = 64 << 20});
    assert_int_equal(fx_tokenize(eng, "Once upon", 9, FX_TOKENIZE_PROMPT, &prompt, NULL), FX_OK);
    return 0;
}

static int close_once(void **state)
{
    (void)state;
    fx_tokens_free(&prompt);
    unthreaded_close(eng);
    return 0;
}

typedef struct heard {
    int32_t tok[N_TOK];
    int at[N_TOK], n_tok;
    size_t n_char[N_TOK]; // of the text, once the event of the token has come
    fxi_buf text;
    bool last;
} heard;

static void on_event(void *ud, const fx_event *ev)
{
    heard *h = ud;
    assert_true(fxi_buf_add(&h->text, ev->text, ev->text_bytes));
    h->last = ev->last;
    if (ev->token < 0) return;
    h->tok[h->n_tok] = ev->token;
    h->at[h->n_tok] = ev->text_at;
    h->n_char[h->n_tok++] = fxi_utf8_count(h->text.p ? h->text.p : "", h->text.n);
}

// Wild answers, so that characters are split between tokens.
static fx_request wild_request(heard *h)
{
    fx_request r = fx_request_default();
    *h = (heard){0};
    r.prompt = prompt.id;
    r.n_prompt = prompt.n;
    r.max_tok = N_TOK;
    r.ignore_eos = true;
    r.sampling.temperature = 1e20F;
    r.sampling.seed = 5;
    r.on_event = on_event;
    r.ud = h;
    return r;
}

static void finish(const fx_request *r, heard *h)
{
    uint64_t id;
    assert_int_equal(fx_submit(eng, r, &id, NULL), FX_OK);
    while (!h->last) (void)fxi_iteration_run(eng);
}

// Whatever is held back for a stop string, and in answers that are emitted at the end.
FX_TEST(test_text_begins_where_the_event_says)
{
    static const char *const never[] = {"e\xff", " t\xff", "\n\xff"};
    heard plain, h;
    fx_request r = wild_request(&plain);
    finish(&r, &plain);
    assert_int_equal(plain.n_tok, N_TOK);
    assert_int_equal(plain.at[0], 0);
    for (int i = 1; i < N_TOK; i++) assert_int_equal(plain.at[i], plain.n_char[i - 1]);
    for (int n_best = 0; n_best <= 2; n_best += 2) {
        r = wild_request(&h);
        r.stop = never;
        r.n_stop = 3;
        r.n_best = n_best;
        r.sampling.temperature = n_best ? 0 : r.sampling.temperature;
        finish(&r, &h);
        if (!n_best) assert_memory_equal(h.at, plain.at, sizeof h.at);
        assert_int_equal(h.at[0], 0);
        for (int i = 1; i < h.n_tok; i++)
            assert_in_range(h.at[i], h.at[i - 1], h.n_char[N_TOK - 1]);
        fxi_buf_free(&h.text);
    }
    fxi_buf_free(&plain.text);
}

// The end-of-text token is likely, goes on, and is spelled out only where the request says so.
FX_TEST(test_control_tokens_are_shown)
{
    const int32_t eos = fxi_vocab_eos(eng->vocab);
    const fx_bias likely = {eos, EOS_BIAS};
    size_t n;
    const char *piece = fx_token_text(eng, eos, &n);
    assert_true(n > 0);
    char *spelled = strndup(piece, n);
    (void)fx_token_bytes(eng, eos, &n);
    assert_int_equal(n, 0);
    for (int show = 0; show < 3; show++) { // none of them, all of them, this one
        heard h;
        fx_request r = wild_request(&h);
        r.sampling.temperature = 0;
        r.sampling.bias = &likely;
        r.sampling.n_bias = 1;
        r.show_control = show == 1;
        r.show_token = &eos;
        r.n_show_token = show == 2;
        finish(&r, &h);
        assert_int_equal(h.tok[0], eos);
        assert_int_equal(h.text.p && strstr(h.text.p, spelled), show > 0);
        fxi_buf_free(&h.text);
    }
    free(spelled);
}

// The model has one template, for requests with tools too.
FX_TEST(test_the_chat_template_is_there_to_read)
{
    size_t n = 0, n_tools = 0;
    const char *text = fx_chat_template(eng, false, &n);
    assert_ptr_equal(fx_chat_template(eng, true, &n_tools), text);
    assert_true(n > 0 && n == n_tools);
    assert_non_null(memmem(text, n, "messages", 8));
}

FX_TEST(test_ids_to_text)
{
    static const char text[] = "Once upon a time, caf\xC3\xA9 \xF0\x9F\x98\x80.";
    fx_tokens t = {0};
    assert_int_equal(fx_tokenize(eng, text, sizeof text - 1, FX_TOKENIZE_PROMPT, &t, NULL), FX_OK);
    size_t *at = calloc(t.n, sizeof *at), n;
    char *back;
    assert_int_equal(fx_detokenize(eng, t.id, t.n, false, at, &back, &n, NULL), FX_OK);
    assert_string_equal(back, text);
    assert_int_equal(n, sizeof text - 1);
    for (size_t i = 0; i < t.n; i++) { // the text of the tokens before it has as many characters
        char *head;
        assert_int_equal(fx_detokenize(eng, t.id, i, false, NULL, &head, &n, NULL), FX_OK);
        const char *cut = strstr(head, "\xEF\xBF\xBD");
        assert_int_equal(at[i], fxi_utf8_count(head, cut ? (size_t)(cut - head) : n));
        free(head);
    }
    free(back);
    const int32_t ends[] = {fxi_vocab_eos(eng->vocab), -1, 1 << 30};
    assert_int_equal(fx_detokenize(eng, ends, 3, false, NULL, &back, &n, NULL), FX_OK);
    assert_string_equal(back, "");
    free(back);
    assert_int_equal(fx_detokenize(eng, ends, 3, true, NULL, &back, &n, NULL), FX_OK);
    const char *spelled = fx_token_text(eng, ends[0], &n);
    assert_int_equal(strlen(back), n);
    assert_memory_equal(back, spelled, n);
    free(back);
    free(at);
    fx_tokens_free(&t);
}

// The limit is exact, and a refused text leaves what was there before.
FX_TEST(test_a_limit_of_tokens)
{
    static const char text[] = "Once upon a time there was a little dog named Tim, caf\xC3\xA9.";
    fx_tokens all = {0}, some = {0};
    assert_int_equal(fx_tokenize(eng, text, sizeof text - 1, FX_TOKENIZE_PROMPT, &all, NULL),
                     FX_OK);
    for (size_t max = 1; max <= all.n + 1; max++) {
        const size_t before = some.n;
        const fx_status st =
            fx_tokenize_max(eng, text, sizeof text - 1, FX_TOKENIZE_PROMPT, max, &some, NULL);
        assert_int_equal(st, max < all.n ? FX_ECONTEXT : FX_OK);
        assert_int_equal(some.n, before + (st == FX_OK ? all.n : 0));
        if (st == FX_OK) assert_memory_equal(some.id + before, all.id, all.n * sizeof *all.id);
    }
    fx_tokens_free(&all);
    fx_tokens_free(&some);
}

// A text of megabytes is refused by its length, or after as many ids as there may be: never are
// there ids for all of it.
FX_TEST(test_long_texts_are_refused_early)
{
    enum { MAX_TOK = 512, N_BYTES = 4 << 20 };
    static const char *const pieces[] = {"x", "the dog and ", "caf\xC3\xA9 "};
    (void)state;
    char *text = malloc(N_BYTES + 16);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const size_t n_piece = strlen(pieces[i]), n = N_BYTES / n_piece * n_piece;
        fx_tokens t = {0};
        for (size_t at = 0; at < n; at += n_piece) memcpy(text + at, pieces[i], n_piece);
        assert_int_equal(fx_tokenize_max(eng, text, n, FX_TOKENIZE_PROMPT, MAX_TOK, &t, NULL),
                         FX_ECONTEXT);
        assert_int_equal(t.n, 0);
        assert_true(t.cap <= 4 * MAX_TOK);
        fx_tokens_free(&t);
    }
    free(text);
}

FX_TEST(test_banned_runs)
{
    heard plain, h;
    fx_request r = wild_request(&plain);
    r.sampling.temperature = 0;
    finish(&r, &plain);
    for (size_t n = 1; n <= 3; n++) {
        const fx_id_run run[] = {{plain.tok + 2, n}, {plain.tok + N_TOK - 1, 1}};
        r = wild_request(&h);
        r.sampling.temperature = 0;
        r.sampling.ban_run = run;
        r.sampling.n_ban_run = 1;
        finish(&r, &h);
        assert_memory_equal(h.tok, plain.tok, (n < 2 ? 2 : n + 1) * sizeof h.tok[0]);
        assert_int_not_equal(h.tok[n + 1], plain.tok[n + 1]);
        for (int i = 0; i + (int)n <= h.n_tok; i++)
            assert_memory_not_equal(h.tok + i, run[0].id, n * sizeof h.tok[0]);
        fxi_buf_free(&h.text);
    }
    fxi_buf_free(&plain.text);
}

FX_RUN_GROUP(test_spelling, open_once, close_once)
