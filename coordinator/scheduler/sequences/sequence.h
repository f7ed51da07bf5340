// SPDX-License-Identifier: Apache-2.0
// One choice of one request: its tokens and everything that decides the next one. Tokens, seed,
// penalties, detokenizer and stop matcher are kept here. A worker has only KV pages, a cache that
// preempt() drops: computing all tokens again gives the same continuation, also on another group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/engine/engine_request.h"
#include "coordinator/sampling/penalties.h"
#include "coordinator/scheduler/sequences/prepared_request.h"
#include "coordinator/scheduler/sequences/stop_matcher.h"
#include "coordinator/streams/stream.h"
#include "coordinator/text/detokenizer/detokenizer.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// The effects of one drawn token: they go to the reader of the stream.
struct SequenceUpdate {
  std::string text = "";  // Text that is now safe to show.
  FinishReason finish_reason = FinishReason::kNone;
  StopCause stop = {};
};

// Used by the engine's thread alone.
class Sequence {
 public:
  enum class State {
    kWaiting,    // Never ran.
    kRunning,    // Holds pages, or is about to.
    kPreempted,  // Ran, lost its pages, waits to be computed again.
    kFinished,
  };

  // `context`: the max number of tokens, prompt and drawn. `request`, `stream` and `tokenizer`
  // (null: no text) outlive the sequence.
  Sequence(const PreparedRequest& request, int32_t index, int64_t context, Stream* stream,
           const Tokenizer* tokenizer);

  const EngineRequest& request() const { return request_; }
  Stream* stream() const { return stream_; }
  int32_t index() const { return index_; }
  uint64_t seed() const { return request_.seed + static_cast<uint64_t>(index_); }
  State state() const { return state_; }
  bool waits() const { return state_ == State::kWaiting || state_ == State::kPreempted; }
  // A lower number is older. The scheduler numbers sequences on arrival; `first`: the first choice
  // of the same request.
  uint64_t number() const { return number_; }
  void queued(uint64_t number, const Sequence* first) { number_ = number, first_ = first; }
  bool has_begun() const { return first_->state_ != State::kWaiting; }  // Its request has begun.
  int64_t planned() const { return planned_; }  // Rows in the next step, or in the running one.
  void set_planned(int64_t rows) { planned_ = rows; }

  // Prompt and generated tokens.
  int64_t length() const { return prompt_tokens() + generated_tokens(); }
  int64_t prompt_tokens() const { return static_cast<int64_t>(request_.prompt_ids.size()); }
  int64_t generated_tokens() const { return static_cast<int64_t>(generated_.size()); }
  int32_t token(int64_t position) const;

  // Positions [0, computed) are in the pages. A step that computes the last token draws the next.
  int64_t computed() const { return computed_; }
  int64_t remaining() const { return length() - computed_; }
  int64_t reached() const { return reached_; }  // The max of computed() so far.
  int64_t extent() const;                       // Its max number of tokens at the end.
  // The number of prompt tokens that are scored; always 0 for a choice that needs no scores.
  int64_t scored() const { return scored_; }
  // The first row whose logits are needed: the last token's, or the first that scores a prompt
  // token. All later rows' logits are needed, too.
  int64_t first_wanted_row() const;
  // How many of the rows [position, position + rows) need logits.
  int64_t wanted_rows(int64_t position, int64_t rows) const;
  std::vector<int32_t>& pages() { return pages_; }
  const std::vector<int32_t>& pages() const { return pages_; }
  int32_t page(int64_t index) const { return pages_[static_cast<size_t>(index)]; }
  // How many of its first pages are in the prefix tree: it no longer writes to them.
  int64_t pages_in_tree() const { return pages_in_tree_; }
  void note_in_tree(int64_t pages) { pages_in_tree_ = pages; }
  int64_t cached_tokens() const { return cached_tokens_; }  // At its first start.
  int64_t preemptions() const { return preemptions_; }      // How often others took its pages.
  int64_t rope_length() const { return rope_length_; }      // At its last start.
  const PreparedRequest& prepared() const { return prepared_; }

  int32_t slot() const { return slot_; }  // The workers' id for it while it runs.
  // How many of its pages the workers know; nullopt: the slot still has another sequence's pages.
  std::optional<size_t> pages_sent() const { return pages_sent_; }
  void note_sent() { pages_sent_ = pages_.size(); }  // A step sends all new pages.

  // The scheduler's side. `rope_length`: see cluster.StepSequence. `cached`: pages of the prefix
  // tree with its first `computed` tokens.
  void start(int32_t slot, int64_t rope_length = 0, std::vector<int32_t> cached = {},
             int64_t computed = 0);
  void advance(int64_t rows);  // A step computed the rows.
  // Resets computed() and returns the pages.
  std::vector<int32_t> drop_pages();
  // After drop_pages(): preempt() makes it wait to be started again, release() ends it.
  void preempt(bool for_others = false);
  void release();

  // The engine's side. The Output for the last token's row, without that row's number. It is built
  // once per token, for the step that computes this row.
  cluster::Output plan() const;
  // The Output for any needed row: rows before the last one score the token that follows.
  cluster::Output plan_at(int64_t position) const;
  // How many prompt tokens are scored after positions [0, computed) are computed.
  int64_t scored_by(int64_t computed) const;
  void note_scored(int64_t tokens) { scored_ = tokens; }
  bool draws() const { return request_.max_tokens > 0; }  // False: only the prompt is computed.
  // Adds a drawn token. Returns true if it is the last one. Call take_update() before the next
  // append(): it returns what the reader gets for the token.
  bool append(int32_t id);
  // The text of the last drawn token; a stop string ends the sequence only here.
  SequenceUpdate take_update();
  // Ends the text for a reason other than a token; held-back text is shown.
  SequenceUpdate finish(FinishReason reason);
  FinishReason finish_reason() const { return finish_reason_; }

 private:
  bool scores() const { return request_.prompt_logprobs >= 0 && index_ == 0; }
  std::string show(std::string_view text);

  const PreparedRequest& prepared_;
  const EngineRequest& request_;
  int32_t index_;
  int64_t context_;
  Stream* stream_;
  State state_ = State::kWaiting;
  FinishReason finish_reason_ = FinishReason::kNone;
  FinishReason end_ = FinishReason::kNone;  // The last token's reason, by its id or its position.

  std::vector<int32_t> generated_;
  Penalties penalties_;
  std::optional<Detokenizer> detokenizer_;
  StopMatcher stop_matcher_;

  uint64_t number_ = 0;
  const Sequence* first_ = this;
  int64_t planned_ = 0, computed_ = 0, reached_ = 0, scored_ = 0;
  int64_t cached_tokens_ = 0, rope_length_ = 0, pages_in_tree_ = 0, preemptions_ = 0;
  std::vector<int32_t> pages_;
  int32_t slot_ = -1;
  std::optional<size_t> pages_sent_;
};

}  // namespace lockstep
