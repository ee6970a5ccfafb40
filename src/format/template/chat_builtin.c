// chat_builtin.c - the built-in chat templates: Jinja texts like any other, in one table.
//
// They are what models of each family were trained with, for the roles system, user and assistant.
// Where a family has no turn for the system, its text is part of the user's turn that follows.
#include "format/template/chat_builtin.h"

#include <string.h>

#include "format/chat.h"

#define BOS "{%- if add_bos %}{{ bos_token }}{% endif %}\n"

// A turn for every role: "name" and "text" are expressions.
#define TURNS(before, text, after, answer)           \
    BOS "{%- for message in messages %}\n"           \
        "{{- " before " + " text " + " after " }}\n" \
        "{%- endfor %}\n"                            \
        "{%- if add_generation_prompt %}{{- " answer " }}{% endif %}"

// The system's text inside the user's turn. `open`: such a turn has begun and waits for the user's
// message.
#define SYSTEM_IN_USER(text, user, end_user, system, end_system, model, end_model, answer) \
    BOS "{%- set ns = namespace(open=false) %}\n"                                          \
        "{%- for message in messages %}\n"                                                 \
        "{%- if message.role == 'assistant' %}\n"                                          \
        "{%- if ns.open %}{{- " end_user " }}{%- set ns.open = false %}{% endif %}\n"      \
        "{{- " model " + " text " + " end_model " }}\n"                                    \
        "{%- else %}\n"                                                                    \
        "{%- if not ns.open %}{{- " user " }}{% endif %}\n"                                \
        "{%- set ns.open = message.role == 'system' %}\n"                                  \
        "{%- if ns.open %}{{- " system " + " text " + " end_system " }}\n"                 \
        "{%- else %}{{- " text " + " end_user " }}{% endif %}\n"                           \
        "{%- endif %}\n"                                                                   \
        "{%- endfor %}\n"                                                                  \
        "{%- if ns.open %}{{- " end_user " }}{% endif %}\n"                                \
        "{%- if add_generation_prompt %}{{- " answer " }}{% endif %}"

#define TEXT    "message.content"
#define TRIMMED "message.content | trim"

// Phi-3's tokenizer drops the newlines that its template writes after control tokens. Of two that
// share a token the more specific one comes first.
static const fxi_builtin builtins[] = {
    {"chatml", "<|im_start|>",
     TURNS("'<|im_start|>' + message.role + '\\n'", TEXT, "'<|im_end|>\\n'",
           "'<|im_start|>assistant\\n'")},
    {"llama3", "<|start_header_id|>",
     TURNS("'<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n'", TRIMMED,
           "'<|eot_id|>'", "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'")},
    {"gemma", "<start_of_turn>",
     SYSTEM_IN_USER(TRIMMED, "'<start_of_turn>user\\n'", "'<end_of_turn>\\n'", "''", "'\\n\\n'",
                    "'<start_of_turn>model\\n'", "'<end_of_turn>\\n'",
                    "'<start_of_turn>model\\n'")},
    {"phi3", "<|end|>",
     TURNS("'<|' + message.role + '|>'", TRIMMED, "'<|end|>'", "'<|assistant|>'")},
    {"zephyr", "<|user|>",
     TURNS("'<|' + message.role + '|>\\n'", TEXT, "eos_token + '\\n'", "'<|assistant|>\\n'")},
    {"llama2", NULL,
     SYSTEM_IN_USER(TRIMMED, "'[INST] '", "' [/INST]'", "'<<SYS>>\\n'", "'\\n<</SYS>>\\n\\n'",
                    "' '", "' ' + eos_token + bos_token", "''")},
    {"mistral", NULL,
     SYSTEM_IN_USER(TEXT, "'[INST] '", "' [/INST]'", "''", "'\\n\\n'", "' '", "eos_token", "''")},
    {"mistral-v3", "[INST]",
     SYSTEM_IN_USER(TEXT, "'[INST] '", "'[/INST]'", "''", "'\\n\\n'", "' '", "eos_token", "''")},
    {"plain", NULL, TURNS("message.role | capitalize + ': '", TEXT, "'\\n'", "'Assistant:'")},
};

enum { N_BUILTIN = sizeof builtins / sizeof *builtins };

const char *fxi_chat_builtin_names(void)
{
    return "chatml llama3 gemma phi3 zephyr llama2 mistral mistral-v3 plain";
}

const fxi_builtin *fxi_builtin_find(const char *name)
{
    for (int i = 0; i < N_BUILTIN; i++)
        if (!strcmp(builtins[i].name, name)) return &builtins[i];
    return NULL;
}

const fxi_builtin *fxi_builtin_for(const fxi_vocab *v)
{
    for (int i = 0; i < N_BUILTIN; i++) {
        const char *token = builtins[i].token;
        int32_t id = token ? fxi_vocab_find(v, token, strlen(token)) : -1;
        if (id >= 0 && fxi_vocab_control(v, id)) return &builtins[i];
    }
    return &builtins[N_BUILTIN - 1];
}
