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
    if (at_or_below) it->second->source_.lanes = nullptr;
  }
}

Strands::Strands(Strand first, std::string path, Source source)
    : first_(std::move(first)), path_(std::move(path)), source_(source), scope_(first_.session->loop()) {
  if (source_.names != nullptr) name_ = source_.names->files_.emplace(path_, this);
}

Strands::~Strands() {
  if (source_.names != nullptr) source_.names->files_.erase(name_);
}

bool Strands::has(const Session& session) const {
  return std::any_of(further_.begin(), further_.end(),
                     [&](const Strand& strand) { return strand.session.get() == &session; });
}

const Strands::Strand& Strands::next(std::uint64_t bytes, std::uint64_t window) {
  carried_ += bytes;
  if (source_.lanes != nullptr && carried_ >= kStream) {
    source_.lanes->expect_stream(window);
    for (const std::shared_ptr<Session>& lane : source_.lanes->streams()) {
      if (adding_ || !lane->channel().is_open() || lane->is_full() || has(*lane)) continue;
      adding_ = true;
      const rt::OperationScope nobody_waits(scope_.loop());
      scope_.spawn(add(lane));
    }
  }
  // The first one's channel is for small files, too, and its connection for all that somebody waits for: once a stream
  // has lanes of its own it keeps to them.
  const Strand* best = nullptr;
  for (const Strand& strand : further_) {
    const sftp::Channel& channel = strand.session->channel();
    if (channel.is_open() && (best == nullptr || channel.unanswered() < best->session->channel().unanswered()))
      best = &strand;
  }
  return best != nullptr ? *best : first_;
}

rt::Task<void> Strands::add(std::shared_ptr<Session> session) {
  const std::uint32_t flags = source_.flags;
  auto handle = co_await session->handle_call(sftp::make_open(path_, flags, std::nullopt));
  bool good = false;
  if (handle) good = co_await is_same_file(session, *handle);
  // The name may have been renamed or removed meanwhile.
  if (good && source_.lanes != nullptr) {
    further_.push_back(Strand{session, *handle});
  } else {
    source_.lanes = nullptr;
    if (handle) co_await rt::ignore_result(session->close_handle(*handle));
  }
  adding_ = false;
}

rt::Task<bool> Strands::is_same_file(std::shared_ptr<Session> session, std::string handle) {
  const sftp::PacketType fstat = sftp::PacketType::Fstat;
  auto before = co_await first_.session->attrs_call(sftp::make_simple(fstat, first_.handle));
  if (!before) co_return false;
  auto seen = co_await session->attrs_call(sftp::make_simple(fstat, handle));
  if (!seen) co_return false;
  auto after = co_await first_.session->attrs_call(sftp::make_simple(fstat, first_.handle));
  if (!after) co_return false;
  co_return seen->type == FileType::Regular && seen->size > 0 && agrees(*seen, *before, *after);
}

rt::Task<Status> Strands::close(sftp::Sending sending) {
  source_.lanes = nullptr;
  co_await scope_.join();
  rt::Scope scope(scope_.loop());
  std::vector<rt::Running<Status>> closings;
  closings.push_back(rt::start(scope, first_.session->close_handle(first_.handle, sending)));
  for (const Strand& strand : further_)
    closings.push_back(rt::start(scope, strand.session->close_handle(strand.handle, sending)));
  co_await scope.join();
  for (rt::Running<Status>& closing : closings) {
    PLY_CO_CHECK(closed, co_await closing.join());
  }
  co_return Status();
}

}  // namespace ply::store
