// fuzz_json.c - request bodies of every kind: any bytes end in parameters or in an error, 4xx, with
// a line of text, and nothing leaks. What parses goes through all that the server does with it:
// ids, an engine's request within the ranges of flexinfer.h, an answer with logprobs, echo and ids,
// whole or streamed; what needs no engine request is answered by its endpoint.
#include "fuzz.h"
#include "json_doc.h"
#include "server/endpoint/endpoint.h"
#include "server/fake_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

FUZZ_TARGET(fuzz_json);

static const char *const aliases[] = {"gpt"};
static fxi_formats formats;
static const fxi_limits limits = {.formats = &formats,
                                  .model_id = "m",
                                  .alias = aliases,
                                  .n_alias = 1,
                                  .n_vocab = 264,
                                  .n_embd = 8,
                                  .max_choice = 64};

// Its thread sleeps: nothing is submitted.
static fx_engine *engine_of_all(void)
{
    static fx_engine *eng;
    if (!eng) eng = fake_engine_new();
    formats.calls = fxi_call_format_named("hermes");
    formats.reasoning = fxi_reason_format_named("think");
    return eng;
}

static void check_json(fxi_buf *b)
{
    fxi_json_doc j_doc = json_doc_sized(b->p, b->n);
    const fxi_json *j = j_doc.root;
    FUZZ_CHECK(j != NULL);
    fxi_json_doc_free(&j_doc);
    fxi_buf_free(b);
}

// The error body must itself be JSON, whatever of the client's it repeats.
static void check_error(const fxi_http_error *e)
{
    fxi_buf b = {0};
    FUZZ_CHECK(e->status >= 400 && e->status < 500);
    FUZZ_CHECK(e->message[0] && fxi_http_error_body(&b, e));
    check_json(&b);
}

// ---- the engine's request -----------------------------------------------------------------------

static bool is_token(int32_t id)
{
    return id >= 0 && id < limits.n_vocab;
}

static void check_sampling(const fx_sampling *s)
{
    FUZZ_CHECK(s->top_p > 0 && s->top_p <= 1 && s->typical_p > 0 && s->typical_p <= 1);
    FUZZ_CHECK(s->repetition_penalty > 0 && isfinite(s->repetition_penalty));
    FUZZ_CHECK(fabsf(s->presence_penalty) <= 2 && fabsf(s->frequency_penalty) <= 2);
    FUZZ_CHECK(s->min_p >= 0 && s->min_p <= 1 && s->top_k >= 0 && s->min_tok >= 0);
    for (size_t i = 0; i < s->n_bias; i++)
        FUZZ_CHECK(is_token(s->bias[i].token) && fabsf(s->bias[i].bias) <= 100);
    FUZZ_CHECK(s->dry_multiplier >= 0 && s->dry_base >= 0 && s->dry_allowed_length >= 0);
    FUZZ_CHECK(s->dry_last_tok >= -1 && s->n_dry_breaker <= 16);
    for (size_t i = 0; i < s->n_dry_breaker; i++) FUZZ_CHECK(s->dry_breaker[i][0]);
    FUZZ_CHECK(s->xtc_probability >= 0 && s->xtc_probability <= 1 && s->xtc_threshold <= 1);
    for (size_t i = 0; i < s->n_allow; i++) FUZZ_CHECK(is_token(s->allow[i]));
    for (size_t i = 0; i < s->n_ban_run; i++) {
        FUZZ_CHECK(s->ban_run[i].n > 0);
        for (size_t k = 0; k < s->ban_run[i].n; k++) FUZZ_CHECK(is_token(s->ban_run[i].id[k]));
    }
}

static void check_request(const fxi_params *par)
{
    fx_request r = fxi_params_request(par, 1);
    FUZZ_CHECK(r.n_choice >= 1 && r.n_choice <= FX_MAX_CHOICE && r.max_tok >= -1);
    FUZZ_CHECK(!r.n_best || (r.n_best > r.n_choice && r.n_best <= FX_MAX_CHOICE && !r.beam_width));
    FUZZ_CHECK(!r.beam_width || (r.beam_width >= r.n_choice && r.beam_width <= FX_MAX_BEAM));
    FUZZ_CHECK(abs(r.priority) <= FX_MAX_PRIORITY && fabsf(r.length_penalty) <= 100);
    FUZZ_CHECK(r.n_top >= 0 && r.n_top <= FX_MAX_TOP);
    FUZZ_CHECK(r.n_prompt_top >= 0 && r.n_prompt_top <= FX_MAX_TOP);
    FUZZ_CHECK(r.keep_priority >= 0 && r.keep_priority <= 7 && r.n_dim >= 0 && r.n_dim <= 8);
    for (size_t i = 0; i < r.n_stop_token; i++) FUZZ_CHECK(is_token(r.stop_token[i]));
    check_sampling(&r.sampling);
}

// ---- its answer ---------------------------------------------------------------------------------

// Every token of the prompt but the first, then one per choice, each with as many likeliest tokens
// as were asked for.
// (The token 0 is a NUL, which the parser of this test does not take as a key.)
static void feed_prompt(fxi_reply *r, const fxi_params *par, int prompt, const fx_tokens *t)
{
    fx_logprob top[FX_MAX_TOP];
    for (int i = 0; i < FX_MAX_TOP; i++)
        top[i] = (fx_logprob){.token = 97 + i, .logprob = -(float)i};
    const fx_request req = fxi_params_request(par, 1);
    fx_token_prob prob = {.logprob = -INFINITY, .rank = 3, .top = top};
    fx_event ev = {.n_prompt = (int)t->n, .prob = &prob, .text = "", .stop_string = -1};
    prob.n_top = req.n_prompt_top;
    for (ev.position = 1; req.prompt_logprobs && (size_t)ev.position < t->n; ev.position++) {
        ev.token = t->id[ev.position];
        fxi_reply_event(r, prompt, &ev);
    }
}

static void feed_choice(fxi_reply *r, const fxi_params *par, int k, const char *text, size_t n)
{
    static const float vector[8] = {0, 1, -1, 0.5f, 1e-30f, 1e30f, NAN, -0.0f};
    const fx_logprob top[FX_MAX_TOP] = {{.token = 263, .logprob = -0.25f}};
    const fx_request req = fxi_params_request(par, 1);
    const fx_token_prob prob = {
        .logprob = -0.5f, .rank = 1, .top = top, .n_top = req.n_top ? 1 : 0};
    fx_event ev = {.choice = k % r->spec.n_per_prompt,
                   .token = 263,
                   .position = 1 << 20,
                   .prob = req.logprobs ? &prob : NULL,
                   .text = text,
                   .text_bytes = n,
                   .finish = FX_FINISH_STOP,
                   .stop_string = (int)par->n_stop - 1,
                   .stop_token = par->stop_token.n ? par->stop_token.id[0] : -1};
    if (req.task != FX_TASK_GENERATE) {
        ev.embedding = vector;
        ev.n_embd = req.task == FX_TASK_SCORE ? 1 : req.n_dim ? req.n_dim : 8;
    }
    fxi_reply_event(r, k / r->spec.n_per_prompt, &ev);
}

// False: a prompt is refused.
static bool set_prompts(fxi_reply *r, const fxi_params *par)
{
    fxi_http_error e = {0};
    bool ok = true;
    for (int i = 0; ok && i < r->spec.n_prompt; i++) {
        const fxi_prompt *p = par->prompt ? &par->prompt[i] : NULL;
        fx_tokens t = {0};
        ok = fxi_params_encode(par, engine_of_all(), (size_t)i, &t, &e) &&
             fxi_reply_set_prompt(r, i, &t, p ? p->text : NULL, p ? p->n_bytes : 0, &e);
        if (ok) feed_prompt(r, par, i, &t);
        fx_tokens_free(&t);
    }
    if (!ok) check_error(&e);
    return ok;
}

static void check_answer(const fxi_params *par, const char *text, size_t n_bytes)
{
    fxi_reply r = {.eng = engine_of_all(), .model = "m", .fingerprint = "f"};
    fxi_reply_spec spec = fxi_params_reply(par);
    fxi_buf b = {0};
    FUZZ_CHECK(fxi_reply_init(&r, &spec, 1 << 24));
    const bool ok = set_prompts(&r, par);
    for (int k = 0; ok && k < r.spec.n_prompt * r.spec.n_per_prompt; k++)
        feed_choice(&r, par, k, text, n_bytes);
    FUZZ_CHECK(r.ended == ok && !r.err.status);
    if (ok && !r.spec.stream) {
        FUZZ_CHECK(fxi_whole_body(&b, &r));
        check_json(&b);
    }
    fxi_reply_free(&r);
}

static void try_run(fxi_api api, const char *body, size_t n_bytes)
{
    fxi_params par;
    fxi_http_error e = {0};
    fxi_limits lim = limits;
    lim.scores = n_bytes % 2;
    if (!fxi_params_parse(&par, api, body, n_bytes, &lim, &e) ||
        !fxi_params_resolve(&par, engine_of_all(), &e)) {
        check_error(&e);
    } else {
        check_request(&par);
        check_answer(&par, body, n_bytes);
    }
    fxi_params_free(&par);
}

// ---- endpoints ----------------------------------------------------------------------------------

static void try_endpoint(fxi_endpoint *call, const char *body, size_t n_bytes)
{
    const fxi_call c = {
        .eng = engine_of_all(), .lim = &limits, .tail = "", .body = body, .n_body = n_bytes};
    fxi_http_error e = {0};
    fxi_buf out = {0};
    if (call(&c, &out, &e))
        check_json(&out);
    else
        check_error(&e);
    fxi_buf_free(&out);
}

static void try_abort(const char *body, size_t n_bytes)
{
    fxi_params par;
    fxi_http_error e = {0};
    if (fxi_params_parse(&par, FXI_API_ABORT, body, n_bytes, &limits, &e))
        FUZZ_CHECK(par.abort_id && par.abort_id[0]);
    else
        check_error(&e);
    fxi_params_free(&par);
}

int fuzz_json_run(const uint8_t *data, size_t n_bytes)
{
    static const fxi_api runs[] = {FXI_API_COMPLETIONS, FXI_API_CHAT,      FXI_API_EMBEDDINGS,
                                   FXI_API_RETAIN,      FXI_API_RESPONSES, FXI_API_MESSAGES,
                                   FXI_API_RERANK,      FXI_API_SCORE};
    static fxi_endpoint *const calls[] = {fxi_endpoint_tokenize, fxi_endpoint_detokenize,
                                          fxi_endpoint_apply_template, fxi_endpoint_set_budget,
                                          fxi_endpoint_count};
    const char *body = (const char *)data;
    (void)engine_of_all(); // and the formats
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) try_run(runs[i], body, n_bytes);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) try_endpoint(calls[i], body, n_bytes);
    try_abort(body, n_bytes);
    return 0;
}

FUZZ_JSON_SEEDS(
    fuzz_json,
    "{'prompt':'a','max_tokens':5,'temperature':0.7,'top_p':0.9,'top_k':40,'min_p':0.1,"
    "'seed':-5,'stop':'x','ignore_eos':true,'model':'m'}",
    "{'prompt':['a','b'],'n':2,'stream':true,'stop':['x','y'],"
    "'stream_options':{'include_usage':true,'continuous_usage_stats':true}}",
    "{'prompt':[[1,2],[3]],'best_of':2,'logprobs':null,'logit_bias':{'1':0}}",
    "{'messages':[{'role':'system','content':'h\\u00e9\\ud83d\\ude00'},{'role':'user',"
    "'content':[{'type':'text','text':'t'}]}],'tools':[],'tool_choice':'auto',"
    "'response_format':{'type':'text'},'n':3}",
    "{'messages':[{'role':'assistant','content':null,'tool_calls':[{}]},{'role':'tool',"
    "'content':''}],'echo':true,'logprobs':true,'top_logprobs':2}",
    "{'prompt':'a','presence_penalty':1,'frequency_penalty':-1,'repetition_penalty':1.2,"
    "'dry_multiplier':0.8,'dry_base':2,'dry_penalty_last_n':9,'dry_sequence_breakers':['a','\\n'],"
    "'xtc_probability':0.5,'xtc_threshold':0.2,'typical_p':0.9,'logit_bias':{'5':-100,'7':1.5},'"
    "allowed_token_ids':[5,7,8],"
    "'min_tokens':2,'stop_token_ids':[7,99],'include_stop_str_in_output':true,'n':2,"
    "'best_of':4,'priority':-3,'cache_salt':'s\\u00e9','cache_prompt':false}",
    "{'messages':[{'role':'user','content':'a'}],'use_beam_search':true,'n':3,"
    "'length_penalty':0.5,'early_stopping':'never','stop_token_ids':[3]}",
    "{'prompt':['h\\u00e9','b'],'echo':true,'logprobs':3,'prompt_logprobs':2,'max_tokens':0,"
    "'return_token_ids':true,'return_tokens_as_token_ids':true}",
    "{'prompt':[[257,258,261],[263]],'echo':true,'logprobs':2,'n':2,'stream':true,"
    "'skip_special_tokens':false,'truncate_prompt_tokens':2,'bad_words':['a',' b']}",
    "{'messages':[{'role':'user','content':'a'}],'logprobs':true,'top_logprobs':5,"
    "'prompt_logprobs':1,'return_token_ids':true,'request_id':'r_1','model':'gpt'}",
    "{'input':['a','b'],'encoding_format':'base64','dimensions':3,'normalize':true}",
    "{'query':'a','documents':['b',{'text':'c'}],'top_n':1,'return_documents':true}",
    "{'text_1':['a','b'],'text_2':['b','a'],'truncate_prompt_tokens':-1}",
    "{'input':[[97,98]],'add_special_tokens':false,'user':'u'}",
    "{'prompt':'a<eot>','keep_priority':3,'keep_seconds':9,'parse_special':false,"
    "'return_token_strs':true}",
    "{'tokens':[256,97,263],'skip_special_tokens':true}",
    "{'content':'a','with_pieces':true,'kv_memory_bytes':4096,'id':'cmpl-1'}", "[[[[{'a':1e5}]]]]",
    "{'messages':[{'role':'user','content':'<think>'}],'tools':[{'type':'function',"
    "'function':{'name':'f','strict':true,'parameters':{}}}],'tool_choice':'required',"
    "'parallel_tool_calls':false,'reasoning_effort':'low','chat_template_kwargs':{'a':1}}",
    "{'input':[{'role':'user','content':[{'type':'input_text','text':'a'}]},"
    "{'type':'reasoning','summary':[]},{'type':'function_call','call_id':'c','name':'f',"
    "'arguments':'{}'},{'type':'function_call_output','call_id':'c','output':'o'}],"
    "'instructions':'i','tools':[{'type':'function','name':'f'}],'reasoning':{'effort':'low'},"
    "'text':{'format':{'type':'text'}},'stream':true}",
    "{'max_tokens':9,'system':[{'type':'text','text':'s'}],'messages':[{'role':'assistant',"
    "'content':[{'type':'thinking','thinking':'t'},{'type':'tool_use','id':'c','name':'f',"
    "'input':{}}]},{'role':'user','content':[{'type':'tool_result','tool_use_id':'c',"
    "'content':'o'},{'type':'text','text':'u'}]}],'tools':[{'name':'f','input_schema':{}}],"
    "'tool_choice':{'type':'any'},'thinking':{'type':'enabled'},'stop_sequences':['x']}")
