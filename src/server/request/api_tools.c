// api_tools.c - which tools an answer may call, whether strictly, and in which format.
#include <string.h>

#include "server/request/api_fields.h"

const char *fxi_tool_name(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function");
    return json_string_value(json_object_get(function ? function : tool, "name"));
}

bool fxi_tools_include(const json_t *list, const char *name)
{
    size_t i = 0;
    while (i < json_array_size(list) && strcmp(fxi_tool_name(json_array_get(list, i)), name) != 0)
        i++;
    return i < json_array_size(list);
}

bool fxi_tool_is_wanted(const fxi_params *par, const json_t *tool)
{
    const char *name = fxi_tool_name(tool);
    if (par->only_tool) return !strcmp(par->only_tool, name);
    return !par->allowed_tools || fxi_tools_include(par->allowed_tools, name);
}

bool fxi_tool_is_strict(const json_t *tool)
{
    return json_is_true(json_object_get(json_object_get(tool, "function"), "strict"));
}

const fxi_call_format *fxi_params_calls(const fxi_params *par)
{
    const bool may_call =
        fxi_api_is_chat(par->api) && json_array_size(par->tools) && !par->hide_tools;
    const fxi_call_format *f = may_call && par->formats ? par->formats->calls : NULL;
    const bool needs_plain = may_call && par->must_call && (!f || par->plain_calls);
    return needs_plain ? fxi_call_format_plain() : f;
}

bool fxi_tools_are_strict(const fxi_params *par)
{
    if (!fxi_params_calls(par)) return false;
    if (par->allowed_tools) return true;
    for (size_t i = 0; i < json_array_size(par->tools); i++)
        if (fxi_tool_is_strict(json_array_get(par->tools, i))) return true;
    return false;
}

const fxi_reason_format *fxi_params_reasoning(const fxi_params *par)
{
    const bool splits = fxi_api_is_chat(par->api) && par->separate_reasoning;
    return splits && par->formats ? par->formats->reasoning : NULL;
}
