// SPDX-License-Identifier: GPL-2.0-or-later
// RemoteStore's whole jobs: one round trip on a compound lane, in steps without one.
#include <algorithm>
#include <deque>
#include <limits>

#include "base/path.h"
#include "rt/ignore_result.h"
#include "store/remote_store.h"

namespace ply::store {

namespace {

using sftp::PacketType;

constexpr std::size_t kMaxListingWindow = 16;
// READDIRs in a unit: OpenSSH answers 100 names each. Those behind the end cost the server next to nothing.
constexpr std::size_t kListingBatches = 4;
constexpr std::size_t kMostSoon = 10000;
// The most a unit carries: a lane's budget takes several, and larger files gain nothing from saving two round trips.
constexpr std::size_t kMaxJob = 128 * 1024;

Error lost_channel() {
  return Error(Errc::ConnectionLost, "the channel has ended");
}

}  // namespace

std::size_t RemoteStore::max_job_size() const {
  const auto lane = lanes_.compound(Urgency::Now);
  return lane ? std::min<std::size_t>(kMaxJob, lane->session().max_write()) : 0;
}

// --- listing ---

void RemoteStore::take_names(std::vector<sftp::NameEntry> names, const std::string& full,
                             std::vector<DirEntry>& entries) const {
  for (sftp::NameEntry& entry : names) {
    if (entry.name == "." || entry.name == "..") continue;
    if (is_valid_name(entry.name)) entries.push_back(DirEntry{std::move(entry.name), entry.attr});
    else log_.warning("{} lists an impossible name in {}: left out", dialer_->name(), full);
  }
}

rt::Task<Result<std::vector<DirEntry>>> RemoteStore::list(std::string path, Urgency urgency) {
  if (urgency == Urgency::Now) {
    PLY_CO_CHECK(reachable, co_await this->reachable());
  }
  const std::string full = full_path(path);
  const auto lane = lanes_.compound(urgency);
  if (!lane && urgency != Urgency::Now) co_return Errc::Busy;
  const bool one_trip = lane && options_.pipeline_listing && urgency != Urgency::Soon;
  if (one_trip) {
    auto outcome = co_await lane->list(full, kListingBatches);
    if (outcome.answer && !*outcome.answer) {
      if (urgency == Urgency::Ahead) co_return std::move(*outcome.answer).error();
      PLY_CO_TRY(session, co_await this->session());
      Error failure = co_await explain(session, Attempt::List, std::move(*outcome.answer).error(), full);
      co_return std::move(failure);
    }
    if (outcome.answer && (*outcome.answer)->complete) {
      std::vector<DirEntry> entries;
      take_names(std::move((*outcome.answer)->entries), full, entries);
      co_return std::move(entries);
    }
    if (urgency == Urgency::Ahead) co_return outcome.answer ? Errc::TooLarge : Errc::Busy;
  }
  if (urgency == Urgency::Ahead) co_return Errc::Busy;
  const std::size_t most = urgency == Urgency::Now ? std::numeric_limits<std::size_t>::max() : kMostSoon;
  co_return co_await list_in_steps(std::move(path), most);
}

rt::Task<Result<std::vector<DirEntry>>> RemoteStore::list_in_steps(std::string path, std::size_t max_entries) {
  PLY_CO_TRY(session, co_await this->session());
  const std::string full = full_path(path);
  auto handle = co_await session->handle_call(sftp::make_simple(PacketType::Opendir, full));
  if (!handle) {
    Error failure = co_await explain(session, Attempt::List, std::move(handle).error(), full);
    co_return std::move(failure);
  }
  using Names = Result<std::optional<std::vector<sftp::NameEntry>>>;
  rt::Scope scope(loop_);
  std::deque<rt::Running<Names>> under_way;
  std::vector<DirEntry> entries;
  std::optional<Error> failure;
  // The window grows while answers come, as the directory proves to be large.
  std::size_t window = options_.pipeline_listing ? 2 : 1;
  bool at_end = false;
  while (!failure && !(at_end && under_way.empty())) {
    // After the end, what is under way is still looked at: a server that serves out of order may answer an earlier
    // request with the end and a later one with names.
    while (!at_end && under_way.size() < window)
      under_way.push_back(rt::start(scope, session->names_call(sftp::make_simple(PacketType::Readdir, *handle))));
    Names names = co_await under_way.front().join();
    under_way.pop_front();
    if (!names) {
      failure = std::move(names).error();
    } else if (!*names) {
      at_end = true;
    } else {
      take_names(std::move(**names), full, entries);
      if (entries.size() > max_entries) failure = Error(Errc::TooLarge);
      if (options_.pipeline_listing && window < kMaxListingWindow) ++window;
    }
  }
  co_await scope.join();
  background_.spawn(close_quietly(session, *handle));
  if (failure) co_return std::move(*failure).during("list", full).on_server(dialer_->name());
  co_return std::move(entries);
}

// --- files ---

rt::Task<Result<SmallFile>> RemoteStore::read_file(std::string path, std::size_t max_size, std::size_t expected,
                                                   Urgency urgency) {
  if (urgency == Urgency::Now) {
    PLY_CO_CHECK(reachable, co_await this->reachable());
  }
  const auto lane = lanes_.compound(urgency);
  if (!lane && urgency == Urgency::Ahead) co_return Errc::Busy;
  if (lane) {
    const std::string full = full_path(path);
    auto outcome = co_await lane->read(full, max_size, expected);
    if (outcome.answer && *outcome.answer) {
      SmallFile file;
      file.attr = (*outcome.answer)->attr;
      file.data = std::move((*outcome.answer)->data);
      co_return std::move(file);
    }
    if (outcome.answer) {
      if (urgency == Urgency::Ahead) co_return std::move(*outcome.answer).error();
      PLY_CO_TRY(session, co_await this->session());
      Error failure = co_await explain(session, Attempt::Open, std::move(*outcome.answer).error(), full);
      co_return std::move(failure);
    }
    if (urgency == Urgency::Ahead) co_return Errc::Busy;
  }
  co_return co_await Store::read_file(std::move(path), max_size, expected, urgency);
}

rt::Task<Result<Attr>> RemoteStore::write_file(std::string path, WholeFile file) {
  PLY_CO_CHECK(reachable, co_await this->reachable());
  const auto lane = lanes_.compound(Urgency::Now);
  if (!lane || file.data->size() > max_job_size())
    co_return co_await Store::write_file(std::move(path), std::move(file));
  const std::string full = full_path(path);
  CompoundLane::Write job;
  job.path = full;
  job.begin = file.replace ? CompoundLane::Begin::Replace : CompoundLane::Begin::Create;
  job.mode = open_permissions(file.node);
  if (!file.replace) job.changes = changes_of(file.node);
  if (file.mtime) {
    AttrChange times;
    times.atime = file.atime;
    times.mtime = file.mtime;
    job.changes.push_back(times);
  }
  auto outcome = co_await lane->write(std::move(job), file.data);
  // Of a new file that was on its way when the channel ended, whoever resumes it must look what is there.
  if (!outcome.answer && !file.replace && outcome.lost) co_return lost_channel().during("create", full);
  if (!outcome.answer) {
    if (file.replace || outcome.opened) co_return co_await write_again(std::move(path), std::move(file));
    co_return co_await Store::write_file(std::move(path), std::move(file));
  }
  if (*outcome.answer) {
    if (!file.replace) (*outcome.answer)->nlink = 1;
    co_return std::move(*outcome.answer);
  }
  PLY_CO_TRY(session, co_await this->session());
  const Attempt attempt = outcome.opened ? Attempt::Write : file.replace ? Attempt::OpenForWriting : Attempt::Create;
  const std::uint64_t size = file.data->size();
  Error failure = co_await explain(session, attempt, std::move(*outcome.answer).error(), full, std::string(), size);
  co_return std::move(failure);
}

/// Puts right whatever a unit, or another one behind a wrong handle, did to a file that is ours to replace: content,
/// owner and mode, in steps that each wait for the one before.
rt::Task<Result<Attr>> RemoteStore::write_again(std::string path, WholeFile file) {
  OpenMode mode;
  mode.write = true;
  mode.truncate = true;
  PLY_CO_TRY(opened, co_await open(path, mode));
  File& target = *opened.file;
  Status written;
  if (!file.data->empty()) written = co_await target.write(0, Buffer::copy_of(file.data->span()));
  std::vector<AttrChange> changes = changes_of(file.node);
  if (file.mtime) {
    AttrChange times;
    times.atime = file.atime;
    times.mtime = file.mtime;
    changes.push_back(times);
  }
  // As in the unit, a refused change does not fail the job.
  for (const AttrChange& change : changes) co_await rt::ignore_result(target.set_attr(change));
  auto attr = co_await target.stat();
  Status closed = co_await target.close();
  if (!written) co_return std::move(written).error();
  if (!closed) co_return std::move(closed).error();
  co_return std::move(attr);
}

rt::Task<Result<Attr>> RemoteStore::append_file(std::string path, std::uint64_t base_size,
                                                std::shared_ptr<const Buffer> data) {
  PLY_CO_CHECK(reachable, co_await this->reachable());
  const auto lane = lanes_.compound(Urgency::Now);
  const bool in_steps = !lane || data->size() > max_job_size() || server_refuses_append_;
  if (in_steps) co_return co_await Store::append_file(std::move(path), base_size, std::move(data));
  const std::string full = full_path(path);
  auto outcome = co_await lane->append(full, data);
  // Alone on its lane, a unit with a wrong guess has written nothing; nor has one whose flags were refused.
  const bool refused = outcome.answer && !outcome.opened && outcome.answer->failed_with(Errc::Unsupported);
  if (!outcome.answer || refused) co_return co_await Store::append_file(std::move(path), base_size, std::move(data));
  if (*outcome.answer) co_return std::move(*outcome.answer);
  PLY_CO_TRY(session, co_await this->session());
  const Attempt attempt = outcome.opened ? Attempt::Write : Attempt::OpenForWriting;
  const std::uint64_t size = data->size();
  Error failure = co_await explain(session, attempt, std::move(*outcome.answer).error(), full, std::string(), size);
  co_return std::move(failure);
}

}  // namespace ply::store
