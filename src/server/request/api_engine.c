// api_engine.c - parameters to an engine request, and to the shape of the reply.
//
// Some names and meanings differ: priorities run the other way round, the width of a beam search is
// best_of, and a salt names the tenant, within which prefixes are shared.
#include "server/request/api_request.h"

#include <float.h>
#include <limits.h>
#include <string.h>

int64_t fxi_params_max_tok(const fxi_params *par)
{
    static const int absent[FXI_N_API] = {[FXI_API_COMPLETIONS] = 16,
                                          [FXI_API_CHAT] = -1,
                                          [FXI_API_RESPONSES] = -1,
                                          [FXI_API_MESSAGES] = -1};
    int64_t n = par->max_completion_tok >= 0 ? par->max_completion_tok : par->max_tok;
    return n < 0 ? absent[par->api] : n;
}

int64_t fxi_params_n_seq(const fxi_params *par)
{
    return par->best_of > par->n ? par->best_of : par->n;
}

// Rounds to a float above 0: a tiny double would become 0.
static float above_zero(double v)
{
    return v < FLT_MIN ? FLT_MIN : (float)v;
}

static fx_sampling sampling_of(const fxi_params *par, uint64_t seed)
{
    return (fx_sampling){
        .temperature = (float)par->temperature,
        .top_k = par->top_k < 0 ? 0 : (int)par->top_k,
        .top_p = above_zero(par->top_p),
        .min_p = (float)par->min_p,
        .cut_first = par->cut_first,
        .typical_p = above_zero(par->typical_p),
        .repetition_penalty = above_zero(par->repetition_penalty),
        .presence_penalty = (float)par->presence_penalty,
        .frequency_penalty = (float)par->frequency_penalty,
        .seed = par->has_seed ? (uint64_t)par->seed : seed,
        .bias = par->bias,
        .n_bias = par->n_bias,
        .allow = par->allow.id,
        .n_allow = par->allow.n,
        .ban_run = par->ban,
        .n_ban_run = par->n_ban,
        .min_tok = (int)par->min_tok,
    };
}

static void set_counts(fx_request *req, const fxi_params *par)
{
    int n_seq = (int)fxi_params_n_seq(par);
    req->n_choice = (int)par->n;
    if (par->beam)
        req->beam_width = n_seq;
    else if (n_seq > req->n_choice)
        req->n_best = n_seq;
    req->length_penalty = (float)par->length_penalty;
    req->early_stop = par->early_stop;
}

static void set_ends(fx_request *req, const fxi_params *par)
{
    int64_t max_tok = fxi_params_max_tok(par);
    req->max_tok = max_tok > INT_MAX ? INT_MAX : (int)max_tok;
    req->stop = par->stop;
    req->n_stop = par->n_stop;
    req->stop_token = par->stop_token.id;
    req->n_stop_token = par->stop_token.n;
    req->include_stop = par->include_stop;
    req->ignore_eos = par->ignore_eos;
    req->show_control = !par->skip_special;
}

// What the client calls logprobs, and those of the prompt, which an echo has too.
static bool wants_logprobs(const fxi_params *par)
{
    return par->api == FXI_API_CHAT ? par->logprobs : par->n_logprob >= 0;
}

static void set_logprobs(fx_request *req, const fxi_params *par)
{
    const bool echoes = par->echo && wants_logprobs(par);
    const int64_t n_prompt = par->n_prompt_logprob, n_top = par->n_logprob < 0 ? 0 : par->n_logprob;
    req->logprobs = wants_logprobs(par);
    req->n_top = (int)n_top;
    req->processed_logprobs = par->processed_logprobs;
    req->prompt_logprobs = n_prompt >= 0 || echoes;
    req->n_prompt_top = (int)(echoes && n_top > n_prompt ? n_top : n_prompt < 0 ? 0 : n_prompt);
}

static void set_embedding(fx_request *req, const fxi_params *par)
{
    if (par->api != FXI_API_EMBEDDINGS) return;
    req->task = FX_TASK_EMBED;
    req->n_dim = (int)par->dimensions;
    if (json_object_get(par->root, "normalize"))
        req->norm = par->normalize ? FX_NORM_UNIT : FX_NORM_NONE;
}

const fxi_call_format *fxi_params_calls(const fxi_params *par)
{
    const bool may_call =
        fxi_api_is_chat(par->api) && json_array_size(par->tools) && !par->hide_tools;
    const fxi_call_format *f = may_call && par->formats ? par->formats->calls : NULL;
    const bool needs_plain = may_call && par->must_call && (!f || par->plain_calls);
    return needs_plain ? fxi_call_format_plain() : f;
}

const fxi_reason_format *fxi_params_reasoning(const fxi_params *par)
{
    const bool splits = fxi_api_is_chat(par->api) && par->separate_reasoning;
    return splits && par->formats ? par->formats->reasoning : NULL;
}

// Marks that are control tokens must be seen to be found.
static void set_marks(fx_request *req, const fxi_params *par)
{
    if (!fxi_params_calls(par) && !fxi_params_reasoning(par)) return;
    req->show_token = par->formats->mark;
    req->n_show_token = par->formats->n_mark;
}

fx_request fxi_params_request(const fxi_params *par, uint64_t seed)
{
    fx_request req = fx_request_default();
    req.sampling = sampling_of(par, seed);
    set_counts(&req, par);
    set_ends(&req, par);
    set_logprobs(&req, par);
    set_marks(&req, par);
    set_embedding(&req, par);
    req.grammar = par->grammar;
    req.keep_priority = (int)par->keep_priority;
    req.keep_s = (uint32_t)par->keep_s;
    req.priority = -(int)par->priority; // as in vLLM, the lower goes first
    req.tenant = par->cache_salt;
    req.no_cache = !par->cache_prompt;
    req.no_speculate = !par->speculate;
    return req;
}

// A field that the engine's line begins with, and what clients call it.
static const struct field_name {
    const char *engine, *client;
} field_names[] = {
    {"min_tok:", "min_tokens"},      {"allow:", "allowed_token_ids"},
    {"temperature:", "temperature"}, {"the model ", "model"},
    {"this model ", "model"},        {"repetition_penalty:", "repetition_penalty"},
};

// FX_EINVAL: the values have been checked by then. If the line names none of them, the request has
// more sequences than the engine runs together.
static const char *blame_for_value(const fxi_params *par, const char *line)
{
    for (size_t i = 0; i < sizeof field_names / sizeof field_names[0]; i++)
        if (!strncmp(line, field_names[i].engine, strlen(field_names[i].engine)))
            return field_names[i].client;
    return par->best_of > par->n ? "best_of" : "n";
}

const char *fxi_params_blame(const fxi_params *par, const fx_error *err)
{
    static const char *const lengths[] = {"max_tokens", "max_completion_tokens"};
    if (err->status == FX_EINVAL) return blame_for_value(par, err->text);
    if (err->status == FX_ENOSPACE) return lengths[par->max_completion_tok >= 0];
    return par->input;
}

fxi_reply_spec fxi_params_reply(const fxi_params *par)
{
    const bool stops =
        par->api == FXI_API_COMPLETIONS || fxi_api_is_chat(par->api); // checked there
    const char *stop = par->api == FXI_API_MESSAGES ? "stop_sequences" : "stop";
    return (fxi_reply_spec){.api = par->api,
                            .stream = par->stream,
                            .include_usage = par->include_usage,
                            .continuous_usage = par->continuous_usage,
                            .echo = par->echo,
                            .logprobs = wants_logprobs(par),
                            .return_ids = par->return_ids,
                            .tokens_as_ids = par->tokens_as_ids,
                            .show_control = !par->skip_special,
                            .base64 = par->base64,
                            .n_top = par->n_logprob < 0 ? 0 : (int)par->n_logprob,
                            .prompt_logprobs = par->n_prompt_logprob >= 0,
                            .n_prompt_top = (int)par->n_prompt_logprob,
                            .calls = fxi_params_calls(par),
                            .reasoning = fxi_params_reasoning(par),
                            .either = par->form.field != NULL,
                            .drop_reasoning = !par->include_reasoning,
                            .one_call = !par->parallel_calls,
                            .tools = fxi_params_calls(par) ? (json_t *)par->tools : NULL,
                            .mirror = par->mirror.p,
                            .n_prompt = (int)par->n_prompt,
                            .n_per_prompt = (int)par->n,
                            .stop = stops ? json_object_get(par->root, stop) : NULL,
                            .stop_token_id =
                                stops ? json_object_get(par->root, "stop_token_ids") : NULL};
}
