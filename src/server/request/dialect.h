// dialect.h - requests of other APIs as chats: what they say in words of their own is written as
// messages, tools and template variables of a chat, in JSON, and parsed.
//
//   responses_in.c   OpenAI's /v1/responses
//   messages_in.c    Anthropic's /v1/messages
//   dialect.c        what both share: the chat while it is written
#ifndef FXI_SERVER_DIALECT_H
#define FXI_SERVER_DIALECT_H

#include "server/request/api_fields.h"

typedef struct fxi_chat_draft {
    fxi_parse *p;
    fxi_buf messages, tools; // members of JSON lists
    // The assistant's message that is being collected: its parts may come as items of their own.
    bool open;
    fxi_buf text, reasoning, calls; // calls: members of a JSON list
} fxi_chat_draft;

// All return false with *d->p->err filled.

// The text of a string, or of a list of parts whose types are in `types` (" text input_text "), is
// appended to *out, parts one below the other.
bool fxi_chat_draft_text(fxi_chat_draft *d, const fxi_place *at, const fxi_json *v,
                         const char *types, fxi_buf *out);
// A message of another role than the assistant's; id: of a tool's result, or NULL.
bool fxi_chat_draft_message(fxi_chat_draft *d, const char *role, const char *id,
                            const fxi_buf *text);
// The same with the text of v, as fxi_chat_draft_text reads it.
bool fxi_chat_draft_add(fxi_chat_draft *d, const char *role, const char *id, const fxi_place *at,
                        const fxi_json *v, const char *types);
// The system's message in the field `name`, if it says anything.
bool fxi_chat_draft_system(fxi_chat_draft *d, const char *name, const fxi_json *v,
                           const char *types);
// Adds to the assistant's message: the text of v to d->text or d->reasoning; a call, its args JSON
// text or a value.
bool fxi_chat_draft_say(fxi_chat_draft *d, fxi_buf *to, const fxi_place *at, const fxi_json *v,
                        const char *types);
bool fxi_chat_draft_call(fxi_chat_draft *d, const fxi_json *id, const fxi_json *name,
                         const fxi_json *args);
// The assistant's message is complete.
bool fxi_chat_draft_close(fxi_chat_draft *d);
// Tool i, whose type must be `type`: "function", or "custom" (of Anthropic's), which need not be
// said, but then its parameters, the member `schema`, must be.
bool fxi_chat_draft_tool(fxi_chat_draft *d, size_t i, const fxi_json *tool, const char *type,
                         const char *schema);
// Parses what was written into p->par, whose conversation came in the field `input`.
bool fxi_chat_draft_end(fxi_chat_draft *d, const char *input);
void fxi_chat_draft_free(fxi_chat_draft *d);

#endif
