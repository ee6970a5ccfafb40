// api_checks.c - checks that involve several fields.
#include "server/request/api_fields.h"

static bool check_streaming(fxi_parse *p)
{
    const fxi_params *par = p->par;
    if (!par->stream && par->has_stream_options)
        return fxi_bad_value(p, "stream_options", "'stream_options' needs 'stream'");
    if (!par->stream) return true;
    if (par->best_of > par->n) return fxi_bad_value(p, "best_of", "'best_of' cannot be streamed");
    if (par->beam) return fxi_bad_value(p, "use_beam_search", "a beam search cannot be streamed");
    if (par->prompt_logprobs)
        return fxi_bad_value(p, "prompt_logprobs", "'prompt_logprobs' cannot be streamed");
    return true;
}

static bool check_choices(fxi_parse *p)
{
    const fxi_params *par = p->par;
    int64_t n_seq = fxi_params_n_seq(par);
    const char *name = fxi_params_blame(par, FX_EINVAL);
    if (par->best_of >= 0 && par->best_of < par->n)
        return fxi_bad_value(p, "best_of", "'best_of' must be at least 'n'");
    if (n_seq * (int64_t)par->n_prompt > p->lim->max_choice)
        return fxi_bad_value(p, name, "'%s' times the number of prompts must be at most %d", name,
                             p->lim->max_choice);
    if (par->beam && n_seq > FX_MAX_BEAM)
        return fxi_bad_value(p, name, "a beam search is at most %d wide", FX_MAX_BEAM);
    if (par->top_logprobs > 0 && !par->logprobs)
        return fxi_bad_value(p, "top_logprobs", "'top_logprobs' needs 'logprobs'");
    return true;
}

// Generating nothing makes sense only if the prompt itself is scored or echoed.
static bool check_token_limits(fxi_parse *p)
{
    const fxi_params *par = p->par;
    bool scores = par->prompt_logprobs || json_is_true(json_object_get(par->root, "echo"));
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

bool fxi_fields_check(fxi_parse *p)
{
    return check_streaming(p) && check_choices(p) && check_token_limits(p);
}
