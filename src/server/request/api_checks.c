// api_checks.c - checks that involve several fields.
#include <string.h>

#include "server/request/api_fields.h"

static bool check_streaming(fxi_parse *p)
{
    const fxi_params *par = p->par;
    if (!par->stream && par->stream_options)
        return fxi_bad_value(p, "stream_options", "'stream_options' needs 'stream'");
    if (!par->stream) return true;
    if (par->best_of > par->n) return fxi_bad_value(p, "best_of", "'best_of' cannot be streamed");
    if (par->beam) return fxi_bad_value(p, "use_beam_search", "a beam search cannot be streamed");
    if (par->n_prompt_logprob >= 0)
        return fxi_bad_value(p, "prompt_logprobs", "'prompt_logprobs' cannot be streamed");
    return true;
}

static bool check_choices(fxi_parse *p)
{
    const fxi_params *par = p->par;
    int64_t n_seq = fxi_params_n_seq(par);
    const char *name = par->best_of > par->n ? "best_of" : "n";
    if (par->best_of >= 0 && par->best_of < par->n)
        return fxi_bad_value(p, "best_of", "'best_of' must be at least 'n'");
    if (n_seq * (int64_t)par->n_prompt > p->lim->max_choice)
        return fxi_bad_value(p, name, "'%s' times the number of prompts must be at most %d", name,
                             p->lim->max_choice);
    if (par->beam && n_seq > FX_MAX_BEAM)
        return fxi_bad_value(p, name, "a beam search is at most %d wide", FX_MAX_BEAM);
    if (par->api == FXI_API_CHAT && par->n_logprob > 0 && !par->logprobs)
        return fxi_bad_value(p, "top_logprobs", "'top_logprobs' needs 'logprobs'");
    return true;
}

static bool check_likeliest(fxi_parse *p)
{
    const char *name = p->par->api == FXI_API_CHAT ? "top_logprobs" : "logprobs";
    const int most = p->lim->max_top ? p->lim->max_top : FX_MAX_TOP;
    if (p->par->n_prompt_logprob > most) name = "prompt_logprobs";
    if (p->par->n_prompt_logprob <= most && p->par->n_logprob <= most) return true;
    return fxi_bad_value(p, name, "'%s' must be at most %d on this server", name, most);
}

// Generating nothing makes sense only if the prompt itself is scored or echoed.
static bool check_token_limits(fxi_parse *p)
{
    const fxi_params *par = p->par;
    bool scores = par->n_prompt_logprob >= 0 || par->echo;
    if (par->max_completion_tok == 0)
        return fxi_bad_value(p, "max_completion_tokens",
                             "'max_completion_tokens' must be at least 1");
    if (par->max_tok == 0 && !scores)
        return fxi_bad_value(p, "max_tokens", "'max_tokens' must be at least 1");
    int64_t most = fxi_params_max_tok(par);
    if (most >= 0 && par->min_tok > most)
        return fxi_bad_value(p, "min_tokens", "'min_tokens' must be at most 'max_tokens', %lld",
                             (long long)most);
    return true;
}

static bool check_input(fxi_parse *p)
{
    const bool needs = p->par->api == FXI_API_TOKENIZE || p->par->api == FXI_API_RETAIN;
    if (!needs || p->par->input) return true;
    return fxi_http_fail(p->err, 400, "missing_required_parameter", "prompt",
                         "'prompt' or 'messages' is required");
}

static bool check_continuation(fxi_parse *p)
{
    const fxi_params *par = p->par;
    if (!par->continue_final || !json_is_true(json_object_get(par->root, "add_generation_prompt")))
        return true;
    return fxi_bad_value(p, "continue_final_message",
                         "'continue_final_message' and 'add_generation_prompt' exclude each other");
}

// The marks and the suffix are no part of what an echo repeats, or a truncation keeps.
static bool check_suffix(fxi_parse *p)
{
    const fxi_params *par = p->par;
    if (!par->suffix) return true;
    if (par->echo || par->truncate)
        return fxi_bad_value(p, "suffix", "'suffix' and '%s' exclude each other",
                             par->echo ? "echo" : "truncate_prompt_tokens");
    return par->prompt[0].text || fxi_bad_value(p, "suffix", "'suffix' needs a prompt of text");
}

static bool check_request_id(fxi_parse *p)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *id = p->par->request_id;
    if (!id || !id[strspn(id, fine)]) return true;
    return fxi_bad_value(p, "request_id", "'request_id' must be letters, digits and _.- only");
}

static bool check_dimensions(fxi_parse *p)
{
    if (p->par->api != FXI_API_EMBEDDINGS || p->par->dimensions <= p->lim->n_embd ||
        !p->lim->n_embd)
        return true;
    return fxi_bad_value(p, "dimensions", "'dimensions' must be at most %d", p->lim->n_embd);
}

bool fxi_fields_check(fxi_parse *p)
{
    return check_streaming(p) && check_choices(p) && check_likeliest(p) && check_token_limits(p) &&
           check_input(p) && check_suffix(p) && check_continuation(p) && check_request_id(p) &&
           fxi_tools_check(p) && check_dimensions(p);
}
