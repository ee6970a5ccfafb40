// fuzz_gguf.c - any bytes as a GGUF file: the parser, every reader on every key, the vocabulary.
#include <string.h>

#include "format/chat.h"
#include "fuzz.h"
#include "unit/format/small_vocab.h"

FUZZ_TARGET(fuzz_gguf);

static volatile uint64_t sink; // values read are used

static void read_array(const fxi_gguf_kv *kv)
{
    const unsigned char *at = kv->value;
    for (uint64_t i = 0; i < kv->n_elem; i++) {
        if (kv->elem_type == FXI_GGUF_STR) {
            fxi_str s = fxi_gguf_next_str(&at);
            if (s.n) sink += (unsigned char)s.p[s.n - 1];
        } else if (kv->elem_type == FXI_GGUF_F32 || kv->elem_type == FXI_GGUF_F64) {
            sink += fxi_gguf_float_at(kv, i) > 0;
        } else {
            sink += (uint64_t)fxi_gguf_int_at(kv, i);
        }
    }
}

static void read_kv(const fxi_gguf *g, const fxi_gguf_kv *kv)
{
    char *key = malloc(kv->key.n + 1);
    memcpy(key, kv->key.p, kv->key.n);
    key[kv->key.n] = 0;
    FUZZ_CHECK(fxi_gguf_find(g, key) == kv);
    uint32_t u;
    bool b;
    fxi_str s;
    const fxi_gguf_kv *array;
    fx_error err;
    int n_fit = 0;
    n_fit += fxi_gguf_u32(g, key, true, &u, &err) == FX_OK;
    n_fit += fxi_gguf_bool(g, key, true, &b, &err) == FX_OK;
    n_fit += fxi_gguf_str(g, key, true, &s, &err) == FX_OK;
    n_fit += fxi_gguf_array(g, key, true, kv->elem_type, &array, &err) == FX_OK;
    FUZZ_CHECK(n_fit <= 1);
    read_array(kv);
    free(key);
}

static void read_tensor(const fxi_gguf *g, const fxi_gguf_tensor *t, const uint8_t *data)
{
    const uint8_t *p = t->data;
    FUZZ_CHECK(t->size_bytes > 0 && p >= data && p + t->size_bytes <= data + fxi_gguf_size(g));
    sink += p[0];
    sink += p[t->size_bytes - 1];
}

static void chat(const fxi_gguf *g, const fxi_vocab *v, fxi_ids *ids)
{
    fxi_chat *c;
    fx_error err;
    const fxi_chat_msg hello = {"user", {"Hello </s>", 10}};
    const fxi_conversation q = {.plain = &hello, .n_plain = 1};
    if (fxi_chat_open(&(fxi_chat_source){.gguf = g}, v, &c, &err) != FX_OK) return;
    sink += fxi_chat_encode(c, v, &q, ids, &err);
    fxi_chat_free(c);
}

static void read_vocab(const fxi_gguf *g)
{
    static const char text[] = "Hello <s> w\xC3\xB6rld </s>  <tool> abc";
    fxi_vocab *v;
    fx_error err;
    if (fxi_vocab_load(g, &v, &err) != FX_OK) return;
    fxi_ids ids = {0};
    for (unsigned flags = 0; flags < 4; flags++)
        sink += fxi_vocab_encode(v, text, sizeof text - 1, flags, &ids, &err);
    chat(g, v, &ids);
    for (size_t i = 0; i < ids.n; i++) {
        size_t n;
        FUZZ_CHECK(ids.id[i] >= 0 && ids.id[i] < fxi_vocab_size(v));
        fxi_vocab_bytes(v, ids.id[i], &n);
        sink += n;
    }
    fxi_ids_free(&ids);
    fxi_vocab_free(v);
}

static void check_error(const fx_error *err)
{
    FUZZ_CHECK(err->status == FX_EFORMAT && !strncmp(err->text, "fuzz: ", 6));
    for (const char *c = err->text; *c; c++) FUZZ_CHECK(*c >= 0x20 && *c < 0x7F);
}

int fuzz_gguf_run(const uint8_t *data, size_t n_bytes)
{
    fxi_gguf *g;
    fx_error err;
    if (fxi_gguf_parse(data, n_bytes, "fuzz", &g, &err) != FX_OK) {
        check_error(&err);
        return 0;
    }
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) read_kv(g, fxi_gguf_kv_at(g, i));
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++)
        read_tensor(g, fxi_gguf_tensor_at(g, i), data);
    read_vocab(g);
    fxi_gguf_close(g);
    return 0;
}

bool fuzz_gguf_seed(unsigned i, fxi_buf *out)
{
    static const small_token own[] = {
        {SP, -2, NORMAL}, {"a", -3, NORMAL}, {"<tool>", 0, USER}, {"ab", -1, NORMAL}};
    static const vocab_parts parts[] = {
        {.own = own, .n_own = 4, .bos = 1, .template = "<|im_start|>"},
        {.own = own, .n_own = 4, .no_bytes = true, .template = "[INST] [/INST]"},
    };
    size_t mark[N_MARK];
    if (i < 2) *out = sound_file(2 + i, mark);
    if (i >= 2 && i < 4) *out = vocab_file(&parts[i - 2]);
    return i < 4;
}
