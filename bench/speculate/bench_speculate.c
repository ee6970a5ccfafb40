// bench_speculate.c - what drafts bring for texts that people wrote, with a model of any size.
//
//     texts.py ../shared/data/prompts texts.jsonl
//     make_model -o MODEL --layers 12 --dim 768 --ffn 2048 --heads 12 --vocab 32000 --type q8_0
//     bench_speculate -m MODEL --tokenizer llama2/tokenizer.json texts.jsonl
//
// Models with random weights quote nothing, and small trained ones little. So the model computes
// every row and draws every token, but what was drawn is replaced by the next token of the text's
// answer. Whether a draft is accepted depends on the text alone; what passes take is real. A real
// model's answer quotes its prompt as much or as little as these do.
//
// Each text is asked for without drafts and with them in turns, on one engine, which keeps
// learning what drafts are worth; `again` asks for it once more where its answer is recorded. Time
// counts from the first token to the last.
//
//     bench_speculate -m MODEL --adverse
//
// asks for texts that drafts are wrong about, of 1, 8 and 32 sequences together, new ones in each
// turn: `random` tokens, which nothing is drafted for; tokens out of a `few`, whose last ones have
// always occurred before, but say nothing of the next; and what the model draws when it is `hot`.
// Their ratios say what drafting costs where it brings nothing: the goal is 0.98 at least.
#include "figures.h"

#include "base/number/rng.h"
#include "base/option/opt.h"
#include "flexinfer/flexinfer.h"

#include "base/json/json.h"
#include "base/system/regions.h" // defines: fxi_mapping_open
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256, MAX_KIND = 16, FIRST_TOK = 3, ADVERSE_PROMPT_TOK = 64 };

typedef struct options {
    const char *model, *tokenizer, *speculate, *only;
    int n_thread, n_repeat, draft_tok, max_tok, max_text;
    bool adverse;
} options;

#define FIELD(f) offsetof(options, f)

static const fxi_opt opts[] = {
    {"model", 'm', "FILE", FXI_OPT_STR, 0, 0, NULL, FIELD(model), 1, "the model"},
    {"tokenizer", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, FIELD(tokenizer), 1,
     "another vocabulary than the model's"},
    {"speculate", 0, "NAME", FXI_OPT_STR, 0, 0, "auto", FIELD(speculate), 1,
     "where drafts come from"},
    {"threads", 't', "N", FXI_OPT_INT, 0, 1024, "0", FIELD(n_thread), 1, "threads"},
    {"repeat", 0, "N", FXI_OPT_INT, 1, 100, "2", FIELD(n_repeat), 1, "runs of each text"},
    {"draft-tokens", 0, "N", FXI_OPT_INT, 0, FX_MAX_DRAFT, "0", FIELD(draft_tok), 1,
     "most tokens of a draft; 0: the engine's choice"},
    {"tokens", 0, "N", FXI_OPT_INT, 2, 1 << 16, "160", FIELD(max_tok), 1,
     "of each answer, at most"},
    {"adverse", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, FIELD(adverse), 1,
     "texts that drafts are wrong about, instead of a file"},
    {"only", 0, "KIND", FXI_OPT_STR, 0, 0, NULL, FIELD(only), 1, "texts of this kind alone"},
    {"texts", 0, "N", FXI_OPT_INT, 1, MAX_TEXT, "256", FIELD(max_text), 1, "of each kind, at most"},
};
static const fxi_opt_table table = {
    .opt = opts, .n_opt = sizeof opts / sizeof *opts, .env_prefix = "BENCH_"};

typedef struct text {
    char kind[16];
    fx_tokens prompt, answer;
    // Adverse ones have no answer:
    int n_choice; // 0: as 1
    int n_few;    // the answer's tokens are random ones out of so many; 0: the model draws them
    uint64_t seed;
} text;

// A request and its times; the engine's thread fills them in, the caller waits.
typedef struct asked {
    pthread_mutex_t mu;
    pthread_cond_t done;
    bool last;
    int n_tok;
    double first_s, last_s, first_cpu_s, last_cpu_s;
} asked;

typedef struct way { // of one kind of text
    double s, cpu_s;
    uint64_t n_tok, n_draft_tok, n_accepted_tok;
} way;

enum { PLAIN, DRAFTS, AGAIN, N_WAY };

typedef struct kind_sums {
    char name[16];
    int n_text;
    way way[N_WAY];
    samples ratio, cpu, again; // of the times of a text, with drafts and without
} kind_sums;

// ---- the answer that is wanted -----------------------------------------------------------------

static const text *wanted; // by the engine's thread, while a request runs

int32_t __real_fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                                int position, void *cand);
int32_t __wrap_fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                                int position, void *cand);

int32_t __wrap_fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                                int position, void *cand)
{
    const int32_t drawn = __real_fxi_sampler_draw(p, logits, n_vocab, choice, position, cand);
    const size_t at = (size_t)position - wanted->prompt.n;
    const uint64_t random = fxi_rng_u64(wanted->seed, (uint64_t)choice, at);
    if (wanted->n_few) return FIRST_TOK + (int32_t)(random % (uint64_t)wanted->n_few);
    return at < wanted->answer.n ? wanted->answer.id[at] : drawn;
}

// ---- asking ------------------------------------------------------------------------------------

static void on_event(void *ud, const fx_event *ev)
{
    asked *a = ud;
    pthread_mutex_lock(&a->mu);
    if (ev->token >= 0) {
        a->last_s = now_ns() / 1e9;
        a->last_cpu_s = process_cpu_ns() / 1e9;
        if (a->n_tok++ == 0) a->first_s = a->last_s, a->first_cpu_s = a->last_cpu_s;
    }
    a->last |= ev->last;
    pthread_cond_signal(&a->done);
    pthread_mutex_unlock(&a->mu);
}

// Seconds from the first token to the last, and of CPU in *cpu_s.
static double ask_text(fx_engine *eng, const text *t, int max_tok, int how, way *sum, double *cpu_s)
{
    asked a = {.mu = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
    fx_request req = fx_request_default();
    fx_stats before, after;
    fx_error err;
    uint64_t id;
    wanted = t;
    req.prompt = t->prompt.id;
    req.n_prompt = t->prompt.n;
    req.max_tok = t->n_choice || (int)t->answer.n > max_tok ? max_tok : (int)t->answer.n;
    req.n_choice = t->n_choice ? t->n_choice : 1;
    if (t->n_choice) req.sampling.temperature = 1.5F;
    req.ignore_eos = true;
    req.no_speculate = how == PLAIN;
    req.no_cache = how != AGAIN;
    req.sampling.seed = t->seed + 1;
    req.on_event = on_event;
    req.ud = &a;
    fx_engine_stats(eng, &before);
    if (fx_submit(eng, &req, &id, &err) != FX_OK) die("%s", err.text);
    pthread_mutex_lock(&a.mu);
    while (!a.last) pthread_cond_wait(&a.done, &a.mu);
    pthread_mutex_unlock(&a.mu);
    fx_engine_stats(eng, &after);
    sum->s += a.last_s - a.first_s;
    sum->cpu_s += *cpu_s = a.last_cpu_s - a.first_cpu_s;
    sum->n_tok += (uint64_t)a.n_tok - 1;
    sum->n_draft_tok += after.n_draft_tok - before.n_draft_tok;
    sum->n_accepted_tok += after.n_accepted_tok - before.n_accepted_tok;
    return a.last_s - a.first_s;
}

// In turns, so that what else the machine does meets all of them alike.
static void run_text(fx_engine *eng, const options *o, text *t, kind_sums *k)
{
    way unused = {0};
    double s[N_WAY], cpu_s[N_WAY];
    for (int i = 0; i < o->n_repeat; i++) {
        for (int how = 0; how < AGAIN; how++) {
            const int turn = how ^ (i & 1); // being first is no advantage
            s[turn] = ask_text(eng, t, o->max_tok, turn, &k->way[turn], &cpu_s[turn]);
        }
        if (!i || t->n_choice) (void)ask_text(eng, t, o->max_tok, AGAIN, &unused, cpu_s + AGAIN);
        t->seed += t->n_choice ? 1 : 0; // what is recorded then is another answer
        s[AGAIN] = ask_text(eng, t, o->max_tok, AGAIN, &k->way[AGAIN], &cpu_s[AGAIN]);
        samples_add(&k->ratio, s[PLAIN] / s[DRAFTS]);
        samples_add(&k->cpu, cpu_s[PLAIN] / cpu_s[DRAFTS]);
        samples_add(&k->again, s[PLAIN] / s[AGAIN]);
    }
    k->n_text++;
}

// ---- texts -------------------------------------------------------------------------------------

static void tokenize_member(const fx_engine *eng, const fxi_json *o, const char *name,
                            unsigned flags, fx_tokens *out)
{
    fx_error err;
    const fxi_json *s = fxi_json_get(o, name);
    if (fx_tokenize(eng, fxi_json_text(s), fxi_json_string(s).n, flags, out, &err) != FX_OK)
        die("%s", err.text);
}

static int read_texts(const fx_engine *eng, const char *path, text *t)
{
    fxi_mapping file = {0};
    fxi_str line;
    int n = 0;
    if (fxi_mapping_open(path, &file, NULL) != FX_OK) return 0;
    for (fxi_str rest = {(const char *)file.data, file.size_bytes};
         n < MAX_TEXT && fxi_str_next_line(&rest, &line); n++) {
        fxi_json_doc o = {0};
        if (fxi_json_parse(&o, line, &(fxi_json_rules){0}, NULL) != FX_OK) break;
        snprintf(t[n].kind, sizeof t[n].kind, "%s", fxi_json_text(fxi_json_get(o.root, "kind")));
        tokenize_member(eng, o.root, "prompt", FX_TOKENIZE_PROMPT, &t[n].prompt);
        tokenize_member(eng, o.root, "answer", FX_TOKENIZE_INNER, &t[n].answer);
        fxi_json_doc_free(&o);
    }
    fxi_mapping_close(&file);
    return n;
}

// ---- texts that drafts are wrong about ----------------------------------------------------------

static void make_adverse(text *t, const char *name, int n_few, int n_choice, int n_vocab)
{
    *t = (text){.n_few = n_few, .n_choice = n_choice};
    snprintf(t->kind, sizeof t->kind, "%s %d", name, n_choice);
    t->prompt.id = calloc(ADVERSE_PROMPT_TOK, sizeof *t->prompt.id);
    if (!t->prompt.id) die("no memory");
    for (t->prompt.n = 0; t->prompt.n < ADVERSE_PROMPT_TOK; t->prompt.n++)
        t->prompt.id[t->prompt.n] =
            FIRST_TOK + (int32_t)(fxi_rng_u64(7, 0, t->prompt.n) %
                                  (uint64_t)(n_few ? n_few : n_vocab - FIRST_TOK));
}

static int make_adverse_texts(const fx_engine *eng, text *t)
{
    static const int batch[] = {1, 8, 32};
    const int n_vocab = fx_engine_info(eng)->n_vocab;
    int n = 0;
    for (size_t i = 0; i < sizeof batch / sizeof batch[0]; i++) {
        make_adverse(&t[n++], "random", n_vocab - FIRST_TOK, batch[i], n_vocab);
        make_adverse(&t[n++], "few", 6, batch[i], n_vocab);
        make_adverse(&t[n++], "hot", 0, batch[i], n_vocab);
    }
    return n;
}

static kind_sums *find_kind(kind_sums *k, int *n, const char *name)
{
    int i = 0;
    while (i < *n && strcmp(k[i].name, name) != 0) i++;
    if (i == *n && *n < MAX_KIND - 1) snprintf(k[(*n)++].name, sizeof k->name, "%.15s", name);
    return &k[i];
}

// ---- the program -------------------------------------------------------------------------------

static void print_kind(kind_sums *k)
{
    const way *p = &k->way[PLAIN], *d = &k->way[DRAFTS], *a = &k->way[AGAIN];
    const double accepted =
        d->n_draft_tok ? 100.0 * (double)d->n_accepted_tok / (double)d->n_draft_tok : 0;
    printf("%s,%d,%.1f,%.1f,%.2f,%.3f,%.3f,%.3f,%.0f,%.3f,%.1f,%.3f,%.3f\n", k->name, k->n_text,
           (double)p->n_tok / p->s, (double)d->n_tok / d->s, p->s / d->s,
           samples_at(&k->ratio, 0.5), p->cpu_s / d->cpu_s, samples_at(&k->cpu, 0.5), accepted,
           (double)d->n_draft_tok / (double)d->n_tok, (double)a->n_tok / a->s,
           samples_at(&k->again, 0.5), p->cpu_s / a->cpu_s);
}

static fx_engine *open_engine(const options *o)
{
    fx_options opt = fx_options_default();
    fx_engine *eng;
    fx_error err;
    opt.model_path = o->model;
    opt.tokenizer_path = o->tokenizer;
    opt.speculate = o->speculate;
    opt.draft_tok = o->draft_tok;
    opt.n_thread = o->n_thread;
    if (o->adverse) opt.max_seq = 40;
    if (fx_engine_open(&opt, &eng, &err) != FX_OK) die("%s", err.text);
    return eng;
}

int main(int argc, char **argv)
{
    static text t[MAX_TEXT];
    static kind_sums kinds[MAX_KIND];
    options o = {0};
    fx_error err;
    fxi_opt_rest rest;
    if (fxi_opt_parse(&table, 1, argc - 1, argv + 1, &o, &rest, &err) != FX_OK) die("%s", err.text);
    if (rest.n != !o.adverse || !o.model)
        die("a model (-m) and one file of texts, or --adverse, are expected");
    fx_engine *eng = open_engine(&o);
    int n_kind = 0;
    const int n = o.adverse ? make_adverse_texts(eng, t) : read_texts(eng, rest.arg[0], t);
    for (int i = 0; i < n; i++) {
        if (o.only && strcmp(o.only, t[i].kind) != 0) continue;
        kind_sums *k = find_kind(kinds, &n_kind, t[i].kind);
        if (k->n_text < o.max_text) run_text(eng, &o, &t[i], k);
    }
    printf("kind,texts,plain tok/s,drafts tok/s,ratio,median ratio,CPU ratio,median CPU ratio,"
           "accepted %%,drafted per token,again tok/s,again median ratio,again CPU ratio\n");
    for (int i = 0; i < n_kind; i++) print_kind(&kinds[i]);
    fx_engine_close(eng);
    for (int i = 0; i < n; i++) fx_tokens_free(&t[i].prompt), fx_tokens_free(&t[i].answer);
    return n ? 0 : 1;
}
