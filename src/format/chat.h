// chat.h - a conversation to text and to token ids, by a chat template.
//
// The template is the model's own Jinja text, one that the user names, or a built-in one. What it
// writes itself may become control tokens; what the caller gives (messages, tools, further
// variables) never does, whatever it spells. Apart from that the whole text is tokenized as one, so
// that a conversation that means no harm gets the ids that its model was trained with.
#ifndef FXI_FORMAT_CHAT_H
#define FXI_FORMAT_CHAT_H

#include <time.h>

#include "format/jinja/marked.h"
#include "format/vocab.h"

typedef struct fxi_chat fxi_chat; // immutable: any thread may use it

typedef struct fxi_chat_source {
    const fxi_gguf *gguf; // the model's file, with tokenizer.chat_template and kin; NULL: none
    fxi_str tokenizer;  // the template of the tokenizer's own file, which goes before the model's;
                        // n 0: none
    const char *wanted; // a built-in's name, the name of one of the model's templates, or the path
                        // of a file with one; NULL: the model's, else a built-in by the
                        // vocabulary's tokens
} fxi_chat_source;

// A template of the model that cannot be compiled is no error here: whatever wants to use it gets
// the error then. Errors: FX_EINVAL, FX_EIO, FX_EFORMAT (of what was wanted), FX_ENOMEM.
fx_status fxi_chat_open(const fxi_chat_source *s, const fxi_vocab *v, fxi_chat **out,
                        fx_error *err);
void fxi_chat_free(fxi_chat *c); // NULL is allowed

// "chatml", .. of a built-in one, else NULL.
const char *fxi_chat_builtin(const fxi_chat *c);
// Why chats cannot be rendered, one line; NULL: they can. Lives as long as c.
const char *fxi_chat_broken(const fxi_chat *c);
// The names of the built-in ones, with blanks between them; static.
const char *fxi_chat_builtin_names(void);

typedef struct fxi_chat_request { // JSON texts
    const char *messages;         // array of objects
    const char *tools;            // array; NULL: none
    const char *kwargs;           // object with further variables; NULL: none
    bool add_generation_prompt;
    struct tm now; // what strftime_now shows
} fxi_chat_request;

// Appends the conversation's text and whose each byte is. Where the template does not look into
// lists of parts, a message's parts are joined by newlines; they must be text then. Where it does
// not know the role "developer", such messages are "system" ones. Errors: FX_EINVAL (no JSON, no
// messages, one that is no object with a role; what the template itself refuses: the text it gives;
// a limit), FX_EFORMAT (the model's template could not be compiled), FX_ENOMEM; then *out is as
// before.
fx_status fxi_chat_render(const fxi_chat *c, const fxi_chat_request *q, fxi_marked *out,
                          fx_error *err);

// The same as ids of v, the vocabulary that c was opened with. BOS stands where the template writes
// it; built-in ones write it where the vocabulary asks for it.
fx_status fxi_chat_encode(const fxi_chat *c, const fxi_vocab *v, const fxi_chat_request *q,
                          fxi_ids *out, fx_error *err);

typedef struct fxi_chat_msg {
    const char *role;
    fxi_str text;
} fxi_chat_msg;

// Appends messages of text as the JSON of a request. Errors: FX_EINVAL (bad UTF-8: says where),
// FX_ENOMEM.
fx_status fxi_chat_quote(const fxi_chat_msg *msg, size_t n_msg, fxi_buf *json, fx_error *err);

#endif
