// serving_world.c - an engine whose steps the bench runs, with probes around the model and the KV
// manager; the requests of its clients; and their prompts.
//
// A probe is a copy of a table of operations in which some entries are ours; it is the first member
// of a struct that points to the world.
#include "base/number/rng.h"
#include "bench_serving.h"

static void must(fx_status st, const char *what, const fx_error *err)
{
    if (st != FX_OK) die("%s: %s", what, err->text);
}

// ---- probes ------------------------------------------------------------------------------------

static fx_status probe_forward(fxi_model *m, const fxi_batch *batch, float *logits, fx_error *err)
{
    const model_probe *p = (const model_probe *)m->ops;
    world *w = p->w;
    void (*hook)(void *ud) = w->mid_step;
    w->mid_step = NULL;
    if (hook) hook(w->ud);
    const double start = now_ns();
    const fx_status st = p->real->submit(m, batch, logits, err);
    w->now.forward_ns += now_ns() - start;
    w->now.n_seq += batch->n_seq;
    w->now.n_tok += batch->n_tok;
    return st;
}

static fx_status probe_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    const kv_probe *p = (const kv_probe *)kv->ops;
    world *w = p->w;
    const double start = now_ns();
    fx_status st = p->real->seq_extend(kv, s, len_tok);
    const double ns = now_ns() - start;
    w->now.extend_ns += ns;
    if (w->every) samples_add(w->every, ns);
    if (w->into && p->real->bytes_for(kv, len_tok) != p->real->bytes_for(kv, len_tok - 1))
        samples_add(w->into, ns); // a new chunk
    return st;
}

static void probe_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    const kv_probe *p = (const kv_probe *)kv->ops;
    const double start = now_ns();
    p->real->step(kv, ahead_tok, now_ms);
    p->w->now.kvstep_ns += now_ns() - start;
}

static void put_probes(world *w)
{
    fxi_model *m = w->eng->model;
    fxi_kv *kv = w->eng->kv;
    w->model = (model_probe){*m->ops, m->ops, w};
    w->model.ops.submit = probe_forward;
    m->ops = &w->model.ops;
    w->kv = (kv_probe){*kv->ops, kv->ops, w};
    w->kv.ops.seq_extend = probe_extend;
    w->kv.ops.seq_extend_many = NULL; // each extend is timed by itself
    w->kv.ops.step = probe_step;
    kv->ops = &w->kv.ops;
}

// ---- the engine --------------------------------------------------------------------------------

void world_open(world *w, const bench *b, world_size size)
{
    fx_options opt = fx_options_default();
    fx_error err = {0};
    opt.model_path = b->model;
    opt.n_thread = b->n_thread;
    opt.step_tok = b->size.step_tok;
    opt.ctx_tok = size.ctx_tok;
    opt.max_seq = size.max_seq;
    opt.step_ms = size.step_ms;
    opt.swap_bytes = size.swap_bytes;
    *w = (world){.eng = need(calloc(1, sizeof *w->eng))};
    must(fxi_engine_init(w->eng, &err), "engine", &err);
    must(fxi_engine_load(w->eng, &opt, &err), b->model, &err);
    if (w->eng->info.ctx_tok < size.ctx_tok)
        die("%s: too little memory for the KV cache", b->model);
    put_probes(w);
}

void world_close(world *w)
{
    fxi_iteration_end_all(w->eng, FX_FINISH_ABORT);
    w->eng->model->ops = w->model.real;
    w->eng->kv->ops = w->kv.real;
    fxi_engine_unload(w->eng);
}

void world_turn(world *w)
{
    w->now = (turn){0};
    w->n_turn++;
    const double start = now_ns();
    (void)fxi_iteration_run(w->eng);
    w->now.ns = now_ns() - start;
    w->ns += w->now.ns;
    w->n_tok += (uint64_t)w->now.n_tok;
    // What is kept ready for requests to come does not depend on what those before share.
    const uint64_t used = w->eng->stats.now.kv_mapped_bytes - w->eng->stats.now.kv_spare_bytes;
    if (used > w->peak_bytes) w->peak_bytes = used;
}

void world_finish(world *w)
{
    while (w->n_open) world_turn(w);
}

void world_empty(world *w)
{
    fx_error err = {0};
    must(fxi_kv_forget_idle(w->eng->kv), "forget", &err);
    must(fxi_kv_trim(w->eng->kv, 0), "trim", &err);
    w->n_turn = w->n_tok = w->peak_bytes = 0;
    w->ns = 0;
}

// ---- clients -----------------------------------------------------------------------------------

fx_request plain_request(const int32_t *prompt, size_t n_prompt, int max_tok)
{
    fx_request req = fx_request_default();
    req.prompt = prompt;
    req.n_prompt = n_prompt;
    req.max_tok = max_tok;
    req.ignore_eos = true;
    req.sampling.temperature = 0;
    return req;
}

static void on_event(void *ud, const fx_event *ev)
{
    client *c = ud;
    if (ev->token >= 0) {
        if (!c->n_received) {
            c->first_ns = now_ns();
            c->first_turn = c->w->n_turn;
        }
        if (c->answer) c->answer[c->n_received] = ev->token;
        c->n_received++;
    }
    if (ev->error) die("a request: %s", ev->error);
    if (!ev->last) return;
    c->n_cached = ev->n_cached;
    c->ended = true;
    c->w->n_open--;
}

void client_submit(client *c, world *w, const fx_request *req)
{
    fx_error err = {0};
    fx_request mine = *req;
    *c = (client){.w = w, .answer = c->answer, .submit_ns = now_ns(), .submit_turn = w->n_turn};
    mine.on_event = on_event;
    mine.ud = c;
    must(fx_submit(w->eng, &mine, &c->id, &err), "submit", &err);
    w->n_open++;
}

void clients_cancel(client *c, int n)
{
    for (int i = 0; i < n; i++) fx_cancel(c[i].w->eng, c[i].id);
    for (int i = 0; i < n; i++)
        while (!c[i].ended) world_turn(c[i].w);
}

double client_ttft_ms(const client *c)
{
    return (c->first_ns - c->submit_ns) / 1e6;
}

// ---- prompts: real text like that of users, and random tokens if only their number matters

static const char text[] =
    "Can you tell me a story about a small boat that wanted to see the sea? It should be short, "
    "and at the end the boat should come home before it gets dark. My sister likes it when the "
    "animals can talk, so please put a cat and a frog on the boat. "
    "What would the frog say when the first big wave comes? I think it would be afraid, but the "
    "cat would laugh. Then they could share the bread that grandmother gave them in the morning. "
    "Please tell it again, but this time the wind takes the hat of the captain and nobody knows "
    "where it went. They look under the table, behind the door and in the kitchen. "
    "Why did the bird not help them? It sat on the roof all day and saw everything. Maybe it was "
    "angry because nobody had asked it to come along, and it did not know how to say so. "
    "I like that. Now let the girl find the hat in the garden of the old man, between the red "
    "flowers and the wall. She wants to give it back, but the dog is sleeping on it. "
    "How can you wake a dog without making it angry? Tim says that you should sing very quietly. "
    "Anna says that a piece of cheese is better, and that she always has one in her pocket. "
    "Let them try both, first the song and then the cheese. In the end the dog opens one eye, "
    "takes the cheese and goes back to sleep, and the hat is still under its nose. "
    "That was funny. Tell me what happened on the next day, when the rain came down and all the "
    "streets were full of water. Could the small boat sail to the school and to the market? "
    "Everybody wanted to ride with them, even the teacher with her big umbrella. The captain said "
    "that there was room for five and no more, so they had to go three times. "
    "On the last ride they met a lonely duck that had lost its way. It asked for the river, and "
    "the cat pointed with its tail. Do you think that the duck found its brothers and sisters? "
    "Write down what the duck told its mother in the evening. Begin with the boat, then the hat, "
    "and do not forget the dog. The mother should not believe one word of it. "
    "Thank you, that was the best one so far. Tomorrow I would like to hear about the mountain "
    "that could not sleep because the moon was too bright. Who would turn off the moon?";

// Parts begin 61 tokens apart and wrap around at the end of the text.
int32_t *text_tokens(const world *w, unsigned which, int n_tok)
{
    enum { APART = 61 };
    fx_tokens t = {0};
    fx_error err = {0};
    must(fx_tokenize(w->eng, text, sizeof text - 1, 0, &t, &err), "text", &err);
    int32_t *out = need(malloc((size_t)n_tok * sizeof *out));
    for (int i = 0; i < n_tok; i++) out[i] = t.id[((size_t)which * APART + (size_t)i) % t.n];
    fx_tokens_free(&t);
    return out;
}

// Skips the first quarter of the vocabulary, which holds tokens that are not text.
int32_t *random_tokens(const world *w, uint64_t seed, int n_tok)
{
    const uint64_t n_vocab = (uint64_t)w->eng->info.n_vocab, first = n_vocab / 4;
    int32_t *out = need(malloc((size_t)n_tok * sizeof *out));
    for (int i = 0; i < n_tok; i++)
        out[i] = (int32_t)(first + fxi_rng_u64(seed, 0, (uint64_t)i) % (n_vocab - first));
    return out;
}
