// dialect_out.h - answers of chats in the words of other APIs.
//
//   responses_out.c   OpenAI's /v1/responses: an output of items, events with sequence numbers
//   messages_out.c    Anthropic's /v1/messages: content blocks
//
// Both have one choice, whose parts (fxi_content_part) are the items or blocks, in order.
#ifndef FXI_SERVER_DIALECT_OUT_H
#define FXI_SERVER_DIALECT_OUT_H

#include "server/reply/api_reply.h"

extern const fxi_writer fxi_responses_writer, fxi_messages_writer;

// False: out of memory.
bool fxi_responses_whole(fxi_buf *b, const fxi_reply *r);
bool fxi_messages_whole(fxi_buf *b, const fxi_reply *r);
// An error in Anthropic's form: its body, and the status that stands for e->status there.
bool fxi_messages_error_body(fxi_buf *b, const fxi_http_error *e, const char *request_id);
int fxi_messages_error_status(int status);

#endif
