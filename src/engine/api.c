// api.c - the small public calls: defaults, requests, statistics, tokens, conversations, grammars,
// machine limits, what the model is.
#include "base/json/json.h" // defines: fxi_json_fmt
#include "base/system/clock.h"
#include "engine/engine.h"
#include "format/gguf.h"
#include "format/quantize.h" // defines: fxi_file_type_name
#include "format/vocab.h"
#include "kernels/probe.h"
#include "model/pooling.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fx_options fx_options_default(void)
{
    return (fx_options){0};
}

const char *fx_version(void)
{
    return FX_VERSION;
}

const fx_model_info *fx_engine_info(const fx_engine *eng)
{
    return &eng->info;
}

// ---- requests ----------------------------------------------------------------------------------

fx_status fx_submit(fx_engine *eng, const fx_request *req, uint64_t *id, fx_error *err)
{
    fxi_live_request *r;
    const fx_request spec = fxi_request_clean(req);
    FX_TRY(fxi_request_check(&eng->service, &spec, err));
    FX_TRY(fxi_request_make(&eng->service, &spec, fxi_now_us(eng), &r, err));
    fx_status st = FX_OK;
    r->client = fxi_client_make(&eng->sched.clients, spec.client);
    if (!r->client) st = fxi_fail(err, FX_ENOMEM, "no memory for a request");
    if (st == FX_OK) st = fxi_mailbox_post(&eng->mailbox, &eng->sched, r, &eng->opt, id, err);
    if (st == FX_OK) {
        fxi_stats_add(&eng->stats, &eng->stats.now.n_request, 1);
    } else {
        free(r->client);
        fxi_request_free(r);
    }
    return st;
}

void fx_cancel(fx_engine *eng, uint64_t id)
{
    fxi_mailbox *m = &eng->mailbox;
    pthread_mutex_lock(&m->mu);
    fxi_live_request *r = fxi_mailbox_find_locked(m, id);
    if (r) {
        atomic_store(&r->cancelled, true);
        atomic_store(&m->some_cancelled, true);
    }
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->mu);
}

void fx_stop_choice(fx_engine *eng, uint64_t id, int choice)
{
    _Static_assert(FX_MAX_CHOICE <= 64, "a bit for each choice");
    if (choice < 0 || choice >= FX_MAX_CHOICE) return;
    pthread_mutex_lock(&eng->mailbox.mu);
    fxi_live_request *r = fxi_mailbox_find_locked(&eng->mailbox, id);
    if (r) atomic_fetch_or(&r->stopped, (uint64_t)1 << choice);
    pthread_mutex_unlock(&eng->mailbox.mu);
}

fx_status fx_set_kv_memory(fx_engine *eng, uint64_t kv_memory_bytes, fx_error *err)
{
    FX_TRY(fxi_budget_check(&eng->memory, kv_memory_bytes, err));
    eng->service.budget_bytes = kv_memory_bytes;
    fxi_mailbox_signal(&eng->mailbox, &eng->mailbox.has_new_budget);
    return FX_OK;
}

void fx_clear_cache(fx_engine *eng)
{
    fxi_mailbox_signal(&eng->mailbox, &eng->mailbox.must_clear);
}

void fx_engine_on_step(fx_engine *eng, void (*fn)(void *ud), void *ud)
{
    pthread_mutex_lock(&eng->step_mu);
    eng->on_step = fn;
    eng->on_step_ud = ud;
    pthread_mutex_unlock(&eng->step_mu);
}

// ---- statistics and the flight recorder --------------------------------------------------------

void fx_engine_stats(const fx_engine *eng, fx_stats *out)
{
    fxi_statistics *s = (fxi_statistics *)&eng->stats; // only the lock changes
    pthread_mutex_lock(&s->mu);
    *out = s->now;
    pthread_mutex_unlock(&s->mu);
}

void fx_engine_details(const fx_engine *eng, fx_details *out)
{
    fxi_statistics *s = (fxi_statistics *)&eng->stats;
    pthread_mutex_lock(&s->mu);
    *out = s->details;
    pthread_mutex_unlock(&s->mu);
}

size_t fx_record_copy(const fx_engine *eng, uint64_t from, fx_record *out, size_t max_n,
                      uint64_t *first)
{
    return fxi_recorder_copy(eng->journal.recorder, from, out, max_n, first);
}

const char *fx_record_name(int kind)
{
#define RECORD_NAME(name) #name,
    static const char *const names[] = {FX_RECORDS(RECORD_NAME)};
#undef RECORD_NAME
    return kind >= 0 && kind < FX_N_RECORD ? names[kind] : "?";
}

// ---- tokens ------------------------------------------------------------------------------------

void fx_tokens_free(fx_tokens *t)
{
    free(t->id);
    *t = (fx_tokens){0};
}

const char *fx_token_bytes(const fx_engine *eng, int32_t id, size_t *n_bytes)
{
    return fxi_vocab_bytes(eng->vocab, id, n_bytes);
}

const char *fx_token_text(const fx_engine *eng, int32_t id, size_t *n_bytes)
{
    if (fxi_vocab_control(eng->vocab, id)) return fxi_vocab_piece(eng->vocab, id, n_bytes);
    return fxi_vocab_bytes(eng->vocab, id, n_bytes);
}

fx_status fx_detokenize(const fx_engine *eng, const int32_t *id, size_t n, bool show_control,
                        size_t *at, char **out, size_t *n_bytes, fx_error *err)
{
    fxi_text t = {.bytes = fxi_decoder_begin(eng->vocab, true), .show_control = show_control};
    bool ok = fxi_buf_reserve(&t.clean, 1); // an empty text has a buffer too
    for (size_t i = 0, show; ok && i < n; i++) {
        size_t len;
        const char *bytes = fxi_text_token(&t, eng->vocab, id[i], &len);
        ok = fxi_text_add(&t, bytes, len, NULL, &show);
        if (at) at[i] = t.token_at;
    }
    *n_bytes = 0;
    ok = ok && fxi_text_end(&t, n_bytes);
    *out = ok ? t.clean.p : NULL;
    if (ok) t.clean = (fxi_buf){0};
    fxi_text_free(&t);
    return ok ? FX_OK : fxi_fail(err, FX_ENOMEM, "no memory for the text of %zu tokens", n);
}

// fx_tokens is the public form of fxi_ids.
static fxi_ids ids_of(const fx_tokens *t, size_t max_tok)
{
    return (fxi_ids){t->id, t->n, t->cap, max_tok ? t->n + max_tok : 0};
}

static void return_ids(fx_tokens *t, const fxi_ids *ids)
{
    *t = (fx_tokens){ids->id, ids->n, ids->cap};
}

fx_status fx_tokenize(const fx_engine *eng, const char *text, size_t n_bytes, unsigned flags,
                      fx_tokens *out, fx_error *err)
{
    return fx_tokenize_max(eng, text, n_bytes, flags, 0, out, err);
}

fx_status fx_tokenize_max(const fx_engine *eng, const char *text, size_t n_bytes, unsigned flags,
                          size_t max_tok, fx_tokens *out, fx_error *err)
{
    const bool bos = (flags & FX_TOKENIZE_BOS) && fxi_vocab_adds_bos(eng->vocab);
    const bool eos = (flags & FX_TOKENIZE_EOS) && fxi_vocab_adds_eos(eng->vocab);
    const unsigned how = (flags & FX_TOKENIZE_INNER ? 0 : FXI_ENCODE_SPACE) |
                         (flags & FX_TOKENIZE_CONTROL ? FXI_ENCODE_CONTROL : 0);
    fxi_ids ids = ids_of(out, max_tok);
    fx_status st = FX_OK;
    if (bos && !fxi_ids_add(&ids, fxi_vocab_bos(eng->vocab)))
        st = fxi_fail(err, FX_ENOMEM, "no memory for tokens");
    if (st == FX_OK) st = fxi_vocab_encode(eng->vocab, text, n_bytes, how, &ids, err);
    if (st == FX_OK && eos && !fxi_ids_add(&ids, fxi_vocab_eos(eng->vocab)))
        st = fxi_fail(err, FX_ENOMEM, "no memory for tokens");
    if (st != FX_OK) ids.n = out->n;
    return_ids(out, &ids);
    return st;
}

static fx_status render_pair(const fx_engine *eng, const char *const text[2],
                             const size_t n_bytes[2], size_t max_tok, fx_tokens *out, fx_error *err)
{
    static const fxi_chat_msg nothing = {.role = "user"}; // a conversation has a message
    fxi_buf values = {0};
    fx_status st = fxi_json_fmt(&values, "{'query':%t,'document':%t}",
                                (fxi_str){text[0], n_bytes[0]}, (fxi_str){text[1], n_bytes[1]})
                       ? FX_OK
                       : fxi_fail_memory(err);
    const fxi_conversation q = {.plain = &nothing, .n_plain = 1, .kwargs = {values.p, values.n}};
    fxi_ids ids = ids_of(out, max_tok);
    if (st == FX_OK) st = fxi_chat_encode(eng->pair_chat, eng->vocab, &q, &ids, err);
    fxi_buf_free(&values);
    return_ids(out, &ids);
    return st;
}

fx_status fx_tokenize_pair(const fx_engine *eng, const char *const text[2], const size_t n_bytes[2],
                           size_t max_tok, fx_tokens *out, size_t *n_first, fx_error *err)
{
    const fxi_vocab *v = eng->vocab;
    const size_t n_before = out->n;
    const bool doubles = fxi_vocab_adds_eos(v) && !fxi_vocab_has_words(v);
    if (eng->pair_chat) {
        FX_TRY(render_pair(eng, text, n_bytes, max_tok, out, err));
        *n_first = out->n - n_before;
        return FX_OK;
    }
    fx_status st = fx_tokenize_max(eng, text[0], n_bytes[0], FX_TOKENIZE_EMBED, max_tok, out, err);
    fxi_ids ids = ids_of(out, 0);
    if (st == FX_OK && doubles && !fxi_ids_add(&ids, fxi_vocab_eos(v)))
        st = fxi_fail(err, FX_ENOMEM, "no memory for tokens");
    return_ids(out, &ids);
    *n_first = out->n - n_before;
    if (st == FX_OK && (!max_tok || *n_first < max_tok))
        st = fx_tokenize_max(eng, text[1], n_bytes[1], FX_TOKENIZE_EOS,
                             max_tok ? max_tok - *n_first : 0, out, err);
    if (st == FX_OK && max_tok && (*n_first >= max_tok || out->n - n_before > max_tok))
        st = fxi_fail(err, FX_ECONTEXT, "the pair has more than %zu tokens", max_tok);
    if (st != FX_OK) out->n = n_before;
    return st;
}

// ---- conversations -----------------------------------------------------------------------------

static struct tm local_time(int64_t now_s)
{
    const time_t now = now_s ? (time_t)now_s : time(NULL);
    struct tm local = {0}; // stays so where the year does not fit
    localtime_r(&now, &local);
    return local;
}

static fxi_conversation conversation_of(const fx_chat_request *q)
{
    return (fxi_conversation){.messages = {q->messages, q->messages_bytes},
                              .tools = {q->tools, q->tools_bytes},
                              .kwargs = {q->kwargs, q->kwargs_bytes},
                              .add_generation_prompt = !q->no_answer && !q->continue_final,
                              .continue_final = q->continue_final,
                              .now = local_time(q->now_s)};
}

static fx_status encode_conversation(const fx_engine *eng, const fxi_conversation *q,
                                     size_t max_tok, fx_tokens *out, fx_error *err)
{
    fxi_ids ids = ids_of(out, max_tok);
    fx_status st = fxi_chat_encode(eng->chat, eng->vocab, q, &ids, err);
    return_ids(out, &ids);
    return st;
}

fx_status fx_chat_request_tokenize(const fx_engine *eng, const fx_chat_request *q, fx_tokens *out,
                                   fx_error *err)
{
    const fxi_conversation conversation = conversation_of(q);
    return encode_conversation(eng, &conversation, q->max_tok, out, err);
}

fx_status fx_chat_request_text(const fx_engine *eng, const fx_chat_request *q, char **out,
                               size_t *n_bytes, fx_error *err)
{
    const fxi_conversation conversation = conversation_of(q);
    fxi_marked m = {0};
    fx_status st = fxi_chat_render(eng->chat, &conversation, &m, err);
    if (st == FX_OK && !fxi_buf_reserve(&m.text, 1)) // an empty text has a buffer too
        st = fxi_fail(err, FX_ENOMEM, "no memory for the conversation");
    *out = NULL;
    if (st == FX_OK) {
        *out = m.text.p;
        *n_bytes = m.text.n;
        m.text = (fxi_buf){0};
    }
    fxi_marked_free(&m);
    return st;
}

const char *fx_chat_template(const fx_engine *eng, bool with_tools, size_t *n_bytes)
{
    const fxi_str text = fxi_chat_jinja(eng->chat, with_tools);
    *n_bytes = text.n;
    return text.p;
}

fx_status fx_chat_tokenize(const fx_engine *eng, const fx_message *msg, size_t n_msg,
                           fx_tokens *out, fx_error *err)
{
    if (!n_msg) return fxi_fail(err, FX_EINVAL, "there are no messages");
    fxi_chat_msg *plain = calloc(n_msg, sizeof *plain);
    if (!plain) return fxi_fail(err, FX_ENOMEM, "no memory for %zu messages", n_msg);
    for (size_t i = 0; i < n_msg; i++)
        plain[i] = (fxi_chat_msg){msg[i].role, {msg[i].content, msg[i].content_bytes}};
    const fxi_conversation conversation = {
        .plain = plain, .n_plain = n_msg, .add_generation_prompt = true, .now = local_time(0)};
    fx_status st = encode_conversation(eng, &conversation, 0, out, err);
    free(plain);
    return st;
}

// ---- grammars ----------------------------------------------------------------------------------

fx_status fx_grammar_compile(const fx_engine *eng, const fx_part *root, fx_grammar **out,
                             fx_error *err)
{
    return fxi_grammars_compile((fxi_grammars *)&eng->grammars, root, out, err); // it has locks
}

size_t fx_grammar_memory(const fx_engine *eng)
{
    return atomic_load(&eng->grammars.pool.used_bytes);
}

void fx_set_grammar_memory(fx_engine *eng, size_t bytes)
{
    atomic_store(&eng->grammars.pool.limit_bytes, bytes);
}

// ---- the machine -------------------------------------------------------------------------------

fx_status fx_measure_machine(int n_thread, fx_machine *out, fx_error *err)
{
    if (!n_thread) n_thread = fxi_usable_cores();
    if (n_thread < 1) return fxi_fail(err, FX_EINVAL, "threads: %d is not a number >= 0", n_thread);
    fxi_pool *pool;
    fxi_probe probe;
    FX_TRY(fxi_pool_create(n_thread, &pool, err));
    fx_status st = fxi_probe_machine(pool, fxi_now_s, &probe, err);
    fxi_pool_destroy(pool);
    if (st == FX_OK)
        *out = (fx_machine){.n_thread = n_thread,
                            .read_gb_s = probe.read_gb_s,
                            .fma_gflop_s = probe.fma_gflop_s,
                            .int8_gop_s = probe.int8_gop_s[FXI_PROBE_PRODUCTS],
                            .int8_scaled_gop_s = probe.int8_gop_s[FXI_PROBE_RUN_32]};
    return st;
}

const char *fx_kv_manager_name(int i)
{
    return fxi_kv_manager_name(i);
}

// ---- what the model is --------------------------------------------------------------------------

// A number between lo and hi; -1: there is none.
static double preset_at(const fxi_gguf *g, const char *key, double lo, double hi)
{
    const fxi_gguf_kv *kv = fxi_gguf_find(g, key);
    if (!kv || kv->type == FXI_GGUF_STR || kv->type == FXI_GGUF_ARRAY || kv->type == FXI_GGUF_BOOL)
        return -1;
    const bool is_float = kv->type == FXI_GGUF_F32 || kv->type == FXI_GGUF_F64;
    const double v = is_float ? fxi_gguf_float_at(kv, 0) : (double)fxi_gguf_int_at(kv, 0);
    return v >= lo && v <= hi ? v : -1;
}

static fx_presets presets_of(const fxi_gguf *g)
{
#define KEY(name) "general.sampling." name
    return (fx_presets){.temperature = (float)preset_at(g, KEY("temp"), 0, 100),
                        .top_p = (float)preset_at(g, KEY("top_p"), 1e-6, 1),
                        .min_p = (float)preset_at(g, KEY("min_p"), 0, 1),
                        .repetition_penalty = (float)preset_at(g, KEY("penalty_repeat"), 1e-3, 1e3),
                        .top_k = (int)preset_at(g, KEY("top_k"), 0, INT_MAX)};
#undef KEY
}

void fxi_info_fill(fx_model_info *info, const fxi_gguf *g, const fxi_model *m, const char *path)
{
    const fxi_model_shape *s = &m->shape;
    fxi_str arch = {"", 0};
    (void)fxi_gguf_str(g, "general.architecture", false, &arch, NULL);
    fxi_str title = {"", 0};
    (void)fxi_gguf_str(g, "general.name", false, &title, NULL);
    fxi_model_name(path, info->name, sizeof info->name);
    snprintf(info->title, sizeof info->title, "%.*s", title.n < 127 ? (int)title.n : 127, title.p);
    snprintf(info->arch, sizeof info->arch, "%.*s", arch.n < 31 ? (int)arch.n : 31, arch.p);
    snprintf(info->type, sizeof info->type, "%s", s->type->name);
    const char *file_type = fxi_file_type_name(g);
    snprintf(info->file_type, sizeof info->file_type, "%s", file_type ? file_type : info->type);
    snprintf(info->kernel_path, sizeof info->kernel_path, "%s", m->path);
    snprintf(info->kv_type, sizeof info->kv_type, "%s", fxi_dtype_find(m->kv_type)->name);
    info->presets = presets_of(g);
    info->file_bytes = fxi_gguf_size(g);
    info->n_param = s->n_param;
    info->mul_per_prompt_tok = s->layer_mul;
    info->mul_per_logit_row = s->output_mul;
    info->weight_bytes_per_pass = s->pass_bytes;
    info->n_layer = s->n_layer;
    info->dim = s->dim;
    info->n_head = s->n_head;
    info->n_kv_head = s->n_kv_head;
    info->head_dim = s->head_dim;
    info->n_ffn = s->n_ffn;
    info->n_vocab = s->n_vocab;
    info->bos_id = info->eos_id = -1;
    info->train_ctx_tok = info->ctx_tok = s->train_ctx_tok;
    const size_t passing_bytes = fxi_kv_passing_bytes(&s->kv);
    info->kv_bytes_per_tok = fxi_kv_tok_bytes(&s->kv) - passing_bytes;
    info->kv_state_bytes = fxi_kv_state_bytes(&s->kv) + passing_bytes * (size_t)s->passing_tok;
    info->generates = s->generates;
    info->scores = s->pooling == FXI_POOL_RANK;
    info->embeds = s->pooling != FXI_POOL_NONE && !info->scores;
    snprintf(info->pooling, sizeof info->pooling, "%s", fxi_pooling_name(s->pooling));
    if (s->pooling == FXI_POOL_NONE) return;
    info->n_embd = info->embeds ? s->dim : 0;
    info->embd_tok = s->train_ctx_tok;
}

fx_status fxi_info_check_vocab(const fx_model_info *info, const fxi_vocab *v, const char *path,
                               fx_error *err)
{
    if (fxi_vocab_size(v) <= info->n_vocab) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the vocabulary has %d tokens, the embedding %d rows",
                    path, fxi_vocab_size(v), info->n_vocab);
}

// ---- without loading ---------------------------------------------------------------------------

static fx_status inspect_opened(const fxi_gguf *g, const char *kv_type, fx_model_info *out,
                                fx_error *err)
{
    fxi_model *m;
    const fxi_model_options opt = {.kv_type = kv_type};
    if (!fxi_gguf_n_tensor(g))
        return fxi_fail(err, FX_EFORMAT, "%s: holds a vocabulary and no weights", fxi_gguf_name(g));
    FX_TRY(fxi_model_inspect(g, &opt, &m, err));
    fxi_info_fill(out, g, m, fxi_gguf_name(g));
    out->has_chat_template = fxi_gguf_find(g, "tokenizer.chat_template") != NULL;
    fxi_model_free(m);
    fxi_vocab *v;
    FX_TRY(fxi_vocab_load(g, &v, err));
    const fx_status st = fxi_info_check_vocab(out, v, fxi_gguf_name(g), err);
    fxi_vocab_free(v);
    return st;
}

fx_status fx_model_inspect(const char *model_path, const char *kv_type, fx_model_info *out,
                           fx_error *err)
{
    fxi_gguf *g;
    memset(out, 0, sizeof *out);
    FX_TRY(fxi_model_file_open(model_path, &g, err));
    fx_status st = inspect_opened(g, kv_type, out, err);
    fxi_gguf_close(g);
    return st;
}
