// One vocabulary and one template serve many threads at once: they are read-only, and each call has
// its own scratch memory. (Run it in the tsan preset too.)
#include <pthread.h>
#include <stdatomic.h>

#include "format/chat.h"
#include "unit/cmocka_all.h"
#include "unit/format/small_spec.h"

enum { N_THREAD = 4, N_ROUND = 20, N_TEXT = 24 };

static const char *const alphabet[] = {"a",  "b",  "the",     " ", "\n", "\t",   "1",
                                       "23", "'s", ".",       "é", "ß",  "漢",   "字",
                                       "👍",  "☃",  "e\u0301", "<", "s>", "Once", "upon"};

// Pieces of the alphabet, another order for each text.
static char *text_of(unsigned which)
{
    fxi_buf b = {0};
    unsigned x = which * 2654435761u + 1;
    for (unsigned i = 0; i < 40 + which; i++, x = x * 1664525u + 1013904223u)
        must_be(fxi_buf_str(&b, alphabet[(x >> 16) % (sizeof alphabet / sizeof *alphabet)]));
    must_be(fxi_buf_str(&b, "."));
    return b.p;
}

typedef struct shared {
    const fxi_vocab *v;
    const fxi_chat *c; // NULL: none
    char *text[N_TEXT];
    fxi_ids ids[N_TEXT], chat[N_TEXT]; // what one thread alone finds
    fxi_buf back[N_TEXT];
    atomic_int n_wrong;
} shared;

static bool same_ids(const fxi_ids *a, const fxi_ids *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->id, b->id, a->n * sizeof *a->id));
}

static bool encode(const shared *s, int i, fxi_ids *ids, fxi_buf *back)
{
    return fxi_vocab_encode(s->v, s->text[i], strlen(s->text[i]), 0, ids, NULL) == FX_OK &&
           fxi_vocab_decode(s->v, ids->id, ids->n, 0, back);
}

static bool encode_chat(const shared *s, int i, fxi_ids *ids)
{
    const fxi_chat_msg msg[] = {{"user", str_of(s->text[i])}};
    const fxi_conversation q = {.plain = msg, .n_plain = 1, .add_generation_prompt = true};
    return fxi_chat_encode(s->c, s->v, &q, ids, NULL) == FX_OK;
}

static bool finds_the_same(const shared *s, int i)
{
    fxi_ids ids = {0}, chat = {0};
    fxi_buf back = {0};
    bool same = encode(s, i, &ids, &back) && same_ids(&ids, &s->ids[i]) && back.n == s->back[i].n &&
                !memcmp(back.p, s->back[i].p, back.n);
    if (s->c) same = same && encode_chat(s, i, &chat) && same_ids(&chat, &s->chat[i]);
    fxi_ids_free(&ids);
    fxi_ids_free(&chat);
    fxi_buf_free(&back);
    return same;
}

static void *run(void *arg)
{
    shared *s = arg;
    for (int i = 0; i < N_ROUND * N_TEXT; i++)
        if (!finds_the_same(s, i * 7 % N_TEXT)) atomic_fetch_add(&s->n_wrong, 1);
    return NULL;
}

static void all_at_once(const fxi_vocab *v, const fxi_chat *c)
{
    shared s = {.v = v, .c = c};
    pthread_t thread[N_THREAD];
    for (int i = 0; i < N_TEXT; i++) {
        s.text[i] = text_of((unsigned)i);
        assert_true(encode(&s, i, &s.ids[i], &s.back[i]));
        assert_true(s.ids[i].n > 10);
        if (c) assert_true(encode_chat(&s, i, &s.chat[i]));
    }
    for (int i = 0; i < N_THREAD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, &s), 0);
    for (int i = 0; i < N_THREAD; i++) pthread_join(thread[i], NULL);
    assert_int_equal(s.n_wrong, 0);
    for (int i = 0; i < N_TEXT; i++) {
        free(s.text[i]);
        fxi_ids_free(&s.ids[i]);
        fxi_ids_free(&s.chat[i]);
        fxi_buf_free(&s.back[i]);
    }
}

// SentencePiece merges, and the template that the file has.
FX_TEST(test_of_a_model)
{
    fxi_gguf *g;
    fxi_vocab *v;
    fxi_chat *c;
    assert_int_equal(fxi_gguf_open(FX_SOURCE_DIR "/models/storyteller.gguf", &g, NULL), FX_OK);
    assert_int_equal(fxi_vocab_load(g, &v, NULL), FX_OK);
    assert_int_equal(fxi_chat_open(&(fxi_chat_source){.gguf = g}, v, &c, NULL), FX_OK);
    all_at_once(v, c);
    fxi_chat_free(c);
    fxi_vocab_free(v);
    fxi_gguf_close(g);
}

// Byte-level BPE with regular expressions and a special token, with and without a norm step.
FX_TEST(test_of_patterns)
{
    static const char *const pres[] = {"gpt-2", "qwen2", "llama-bpe"};
    for (size_t i = 0; i < 3; i++) {
        fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
        add_printable_bytes(&s);
        add_pair_of(&s, "t", "h");
        add_pair_of(&s, "th", "e");
        add_piece(&s, "<s>", 0, FXI_TOKEN_USER);
        if (i == 1) add_norm_of(&s, FXI_NORM_NFC, "", "");
        assert_int_equal(fxi_spec_add_pre(&s, str_of(pres[i]), NULL), FX_OK);
        fxi_vocab *v = build_spec(&s);
        all_at_once(v, NULL);
        fxi_vocab_free(v);
    }
}

FX_RUN(test_threads)
