// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/strands.h"

#include <algorithm>

#include "rt/ignore_result.h"
#include "rt/operation.h"

namespace ply::store {

namespace {
// A file that so much went through is a stream. It is also enough content to be told from another file by its size.
constexpr std::uint64_t kStream = 2 << 20;

bool lies_between(std::int64_t value, std::int64_t one, std::int64_t other) {
  return std::min(one, other) <= value && value <= std::max(one, other);
}

/// True if `seen` can be what a file was between `before` and `after`.
bool agrees(const Attr& seen, const Attr& before, const Attr& after) {
  return seen.type == before.type && seen.mode == before.mode && seen.uid == before.uid && seen.gid == before.gid &&
         lies_between(static_cast<std::int64_t>(seen.size), static_cast<std::int64_t>(before.size),
                      static_cast<std::int64_t>(after.size)) &&
         lies_between(seen.mtime, before.mtime, after.mtime);
}
}  // namespace

void OpenNames::gone(const std::string& path) {
  for (auto it = files_.lower_bound(path); it != files_.end() && it->first.starts_with(path); ++it) {
    const bool at_or_below = it->first.size() == path.size() || it->first[path.size()] == '/';
    if (at_or_below) it->second->closed = true;
  }
}

Strands::Strands(Strand first, std::string path, StrandSource source) : state_(std::make_shared<State>()) {
  state_->first = std::move(first);
  state_->path = std::move(path);
  state_->source = source;
  if (source.names != nullptr) name_ = source.names->files_.emplace(state_->path, &state_->source);
}

Strands::~Strands() {
  state_->source.closed = true;
  if (state_->source.names != nullptr) state_->source.names->files_.erase(name_);
}

bool Strands::has(const Session& session) const {
  return std::any_of(state_->further.begin(), state_->further.end(),
                     [&](const Strand& strand) { return strand.session.get() == &session; });
}

const Strands::Strand& Strands::next(std::uint64_t bytes, std::uint64_t window) {
  carried_ += bytes;
  Lanes* const lanes = state_->source.lanes;
  if (lanes != nullptr && !state_->source.closed && carried_ >= kStream) {
    lanes->expect_stream(window);
    for (const std::shared_ptr<Session>& lane : lanes->streams()) {
      if (state_->adding || !lane->channel().is_open() || lane->is_full() || has(*lane)) continue;
      state_->adding = true;
      const rt::OperationScope nobody_waits(lane->loop());
      lanes->run_behind(add(state_, lane));
    }
  }
  // The first one's channel is for small files, too, and its connection for all that somebody waits for: once a stream
  // has lanes of its own it keeps to them.
  const Strand* best = nullptr;
  for (const Strand& strand : state_->further) {
    const sftp::Channel& channel = strand.session->channel();
    if (channel.is_open() && (best == nullptr || channel.unanswered() < best->session->channel().unanswered()))
      best = &strand;
  }
  return best != nullptr ? *best : state_->first;
}

rt::Task<void> Strands::add(std::shared_ptr<State> state, std::shared_ptr<Session> session) {
  auto handle = co_await session->handle_call(sftp::make_open(state->path, state->source.flags, std::nullopt));
  bool good = false;
  if (handle) good = co_await is_same_file(state, session, *handle);
  state->adding = false;
  // The name may have been renamed or removed meanwhile, or the file closed.
  if (good && !state->source.closed) {
    state->further.push_back(Strand{session, *handle});
    co_return;
  }
  state->source.closed = true;
  if (handle) co_await rt::ignore_result(session->close_handle(*handle));
}

rt::Task<bool> Strands::is_same_file(std::shared_ptr<State> state, std::shared_ptr<Session> session,
                                     std::string handle) {
  const sftp::PacketType fstat = sftp::PacketType::Fstat;
  const Strand first = state->first;
  auto before = co_await first.session->attrs_call(sftp::make_simple(fstat, first.handle));
  if (!before) co_return false;
  auto seen = co_await session->attrs_call(sftp::make_simple(fstat, handle));
  if (!seen) co_return false;
  auto after = co_await first.session->attrs_call(sftp::make_simple(fstat, first.handle));
  if (!after) co_return false;
  co_return seen->type == FileType::Regular && seen->size > 0 && agrees(*seen, *before, *after);
}

rt::Task<void> Strands::close_quietly(Strand strand) {
  co_await rt::ignore_result(strand.session->close_handle(strand.handle, sftp::Sending::WithNext));
}

rt::Task<Status> Strands::close(sftp::Sending sending) {
  state_->source.closed = true;
  const bool written = (state_->source.flags & sftp::kOpenWrite) != 0;
  rt::Scope scope(state_->first.session->loop());
  std::vector<rt::Running<Status>> closings;
  const Strand& first = state_->first;
  closings.push_back(rt::start(scope, first.session->close_handle(first.handle, sending)));
  for (const Strand& strand : state_->further) {
    if (written) closings.push_back(rt::start(scope, strand.session->close_handle(strand.handle, sending)));
    else state_->source.lanes->run_behind(close_quietly(strand));
  }
  co_await scope.join();
  for (rt::Running<Status>& closing : closings) {
    PLY_CO_CHECK(closed, co_await closing.join());
  }
  co_return Status();
}

}  // namespace ply::store
